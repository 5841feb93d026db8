"""Under which names the pages may be asked for.

A site of somebody else's whose name is made to resolve to this address (DNS rebinding) would
otherwise read the pages with its visitor's rights.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from firstfault.web.settings import is_loopback

_PLACE = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_.-]{1,255})(:[0-9]{1,5})?")

_PORTS = {"http": ":80", "https": ":443"}

LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Hosts:
    """The names, without ports; ``*`` allows every one. With ``addresses`` every address that is
    written as a number is one, too: no name can be made to resolve to it."""

    def __init__(
        self, names: Iterable[str], *, addresses: bool = False, public_url: str = ""
    ) -> None:
        self._names = frozenset(name.rstrip(".").lower() for name in names)
        self._addresses = addresses
        self._origin = origin_of(public_url) if public_url else ""

    def allows(self, headers: Headers) -> bool:
        """True where a request has one Host header, and it is one of the names."""
        given = headers.getlist("host")
        if len(given) != 1:
            return False
        return self._is_known(given[0])

    def are_origin(self, headers: Headers) -> bool:
        """True unless the headers tell that a page of another site makes the request."""
        site = headers.get("sec-fetch-site")
        if site is not None:
            return site == "same-origin"
        origin = headers.get("origin")
        return origin is None or self._is_own(origin, headers.get("host", ""))

    def _is_own(self, origin: str, host: str) -> bool:
        # Another port of this host may be another user's. A proxy may pass on another name.
        scheme, _, place = origin.partition("://")
        return (scheme in _PORTS and place == host.lower()) or origin == self._origin

    def _is_known(self, place: str) -> bool:
        match = _PLACE.fullmatch(place)
        if match is None:
            return False
        name = match["name"].strip("[]").rstrip(".").lower()
        if "*" in self._names or name in self._names:
            return True
        return self._addresses and _is_address(name)


def names_of(host: str, public_url: str = "", more: Iterable[str] = ()) -> Hosts:
    """The names of pages that listen on ``host`` and are known to readers as ``public_url``; off
    loopback this machine's own, too."""
    names = {host, *more}
    loopback = is_loopback(host)
    names.update(LOOPBACK if loopback else (socket.gethostname(),))
    if public_url:
        names.add(urlsplit(public_url).hostname or "")
    known = (name for name in names if name)
    return Hosts(known, addresses=not loopback, public_url=public_url)


def origin_of(url: str) -> str:
    """The origin of an http(s) ``url``, as browsers write it."""
    parts = urlsplit(url.lower())
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place.removesuffix(_PORTS.get(parts.scheme, ''))}"


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
