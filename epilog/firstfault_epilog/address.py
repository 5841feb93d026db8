"""Where the daemon's intake is: FIRSTFAULT_DAEMON."""

import re
from typing import NamedTuple

PORT = 8766
_URL = re.compile(
    r"(https?)://([A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])"
    r"(?::([0-9]{1,5}))?/?\Z"
)
_LOOPBACK = re.compile(r"(localhost|127(\.[0-9]{1,3}){3}|::1)\Z")


class Address(NamedTuple):
    """The intake's scheme (``http`` or ``https``), host (IPv6 without brackets) and port."""

    scheme: str
    host: str
    port: int


def parse(url: str) -> Address:
    """The address in ``url``. Raises ValueError, which says what is wrong with it.

    Plain http is for a daemon on the same machine: elsewhere anyone on the way could read
    strangers' logs and answer in the daemon's stead.
    """
    match = _URL.match(url)
    if match is None or int(match.group(3) or PORT) not in range(1, 65536):
        raise ValueError(f"{url[:80]!r} is not https://HOST:PORT")
    scheme, host, port = match.groups()
    host = host.strip("[]")
    if scheme == "http" and not _LOOPBACK.match(host):
        raise ValueError(f"{url[:80]!r} is not on this machine: https is needed")
    return Address(scheme, host, int(port or PORT))
