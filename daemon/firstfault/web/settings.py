"""The configuration's table [web]; docs/configuration.md describes each key."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

import msgspec

# What a user or a group may be called: what useradd takes, and what a directory service makes of
# it ("alice@example.org"). Nothing that a proxy could have joined or escaped.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,254}\$?")
PROXY_PROOF = "X-Firstfault-Proxy"

_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,99}")
_HOST = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?|[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:]{0,33}:[0-9A-Fa-f]{0,4}"
)
# What every request has, or a client may set for other reasons.
_TAKEN = frozenset(
    {
        "accept",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "cookie",
        "forwarded",
        "host",
        "origin",
        "referer",
        "transfer-encoding",
        "user-agent",
        "x-forwarded-for",
        PROXY_PROOF.lower(),
    }
)

# A contradiction: the key, and what is wrong with it.
Mistake = tuple[str, str]


class Web(msgspec.Struct, frozen=True):
    """[web]: the pages, and who reads them."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: int = 8765
    public_url: str = ""
    allowed_hosts: tuple[str, ...] = ()
    secret_file: str = ""
    link_days: int = 14
    proxy_user_header: str = ""
    proxy_secret_file: str = ""
    trusted_proxies: tuple[str, ...] = ("127.0.0.1/32", "::1/128")
    munge: bool = False
    tokens_file: str = ""
    admins: tuple[str, ...] = ()
    admin_groups: tuple[str, ...] = ()
    coordinators: bool = True


def is_open(web: Web) -> bool:
    """True where the pages know no users: who reaches them is an administrator."""
    return not (web.proxy_user_header or web.munge or web.tokens_file)


def is_loopback(host: str) -> bool:
    """True for an address of this host alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def mistakes(web: Web) -> Iterator[Mistake]:
    """What in the table contradicts itself."""
    if web.enabled and is_open(web) and not is_loopback(web.host):
        yield (
            "web.host",
            f"is {web.host!r}, and nothing tells who reads: everyone on the network would see all "
            f"jobs. Set web.proxy_user_header (docs/access.md), or leave the pages on 127.0.0.1.",
        )
    if web.proxy_user_header and (
        not _HEADER.fullmatch(web.proxy_user_header) or web.proxy_user_header.lower() in _TAKEN
    ):
        said = 'must be the name of a header of its own, as "X-Remote-User".'
        yield "web.proxy_user_header", f"is {web.proxy_user_header!r}; it {said}"
    for given in web.trusted_proxies:
        try:
            network = ipaddress.ip_network(given)
        except ValueError as error:
            yield "web.trusted_proxies", f'holds {given!r}: {error}. As in "192.0.2.7/32".'
            continue
        if network.prefixlen == 0:
            yield "web.trusted_proxies", f"holds {given!r}, which is everyone: name the proxies."
    if web.proxy_user_header and not web.trusted_proxies:
        yield "web.trusted_proxies", "is empty: then no proxy may say who reads."
    for key, names in (("web.admins", web.admins), ("web.admin_groups", web.admin_groups)):
        for name in names:
            if not NAME.fullmatch(name):
                yield key, f"holds {name!r}, which is no name of a user or group."
    for host in web.allowed_hosts:
        if not _HOST.fullmatch(host):
            yield "web.allowed_hosts", f"holds {host!r}; it must be a host name, without a port."
