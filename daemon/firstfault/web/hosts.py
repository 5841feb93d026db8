"""Under which names the pages may be asked for.

A site of somebody else's whose name is made to resolve to this address (DNS rebinding) would
otherwise read the pages with its visitor's rights.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers

LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Hosts:
    """The names, without ports. ``*`` allows every one."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(name.rstrip(".").lower() for name in names)

    def allows(self, headers: Headers) -> bool:
        """True where a request has one Host header, and it is one of the names."""
        given = headers.getlist("host")
        if len(given) != 1:
            return False
        return self._is_known(f"//{given[0]}")

    def are_origin(self, headers: Headers) -> bool:
        """True unless the headers tell that a page of another site makes the request."""
        site = headers.get("sec-fetch-site")
        if site is not None:
            return site == "same-origin"
        origin = headers.get("origin")
        return origin is None or self._is_own(origin, headers.get("host", ""))

    def _is_own(self, origin: str, host: str) -> bool:
        scheme, _, place = origin.partition("://")
        # A proxy may answer for another port, or another scheme, than this server sees.
        return scheme in ("http", "https") and (place == host or self._is_known(f"//{place}"))

    def _is_known(self, url: str) -> bool:
        try:
            parts = urlsplit(url)
            name, _ = parts.hostname, parts.port
        except ValueError:
            return False
        if not name or "@" in parts.netloc or parts.netloc != url[2:]:
            return False
        return "*" in self._names or name.rstrip(".") in self._names


def names_of(host: str, public_url: str = "", more: Iterable[str] = ()) -> Hosts:
    """The names of pages that listen on ``host`` and are known to readers as ``public_url``."""
    names = {host, *more}
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if loopback:
        names.update(LOOPBACK)
    if public_url:
        names.add(urlsplit(public_url).hostname or "")
    return Hosts(name for name in names if name)
