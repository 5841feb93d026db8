"""A reader by the word of the proxy before the pages, which has asked for a login.

The proxy proves itself twice: by its address, and by a secret that it sends along. An address alone
would be every user's of the host that the proxy runs on.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Sequence

from starlette.requests import Request

from firstfault.web.access import Identity, Rights, asked, nobody
from firstfault.web.settings import NAME, PROXY_PROOF


class Proxy:
    """``header`` names the user, where it comes from one of ``networks`` with the ``secret``."""

    def __init__(self, header: str, secret: str, networks: Sequence[str], rights: Rights) -> None:
        self._header = header.lower()
        self._secret = secret.encode()
        self._networks = tuple(ipaddress.ip_network(network) for network in networks)
        self._rights = rights

    async def identify(self, request: Request) -> Identity | None:
        """See `firstfault.web.access.Way`."""
        users = request.headers.getlist(self._header)
        proofs = request.headers.getlist(PROXY_PROOF.lower())
        if not users:
            return None
        if not self._trusts(request.client.host if request.client else ""):
            return nobody("a login was told by an address that is no trusted proxy's")
        if len(proofs) != 1 or not hmac.compare_digest(proofs[0].encode("latin-1"), self._secret):
            return nobody(f"the proxy did not prove itself by {PROXY_PROOF}")
        if len(users) != 1:
            return nobody("the proxy told two logins")
        if not users[0]:
            return None  # a place that the proxy lets through without a login
        if not NAME.fullmatch(users[0]):
            return nobody("the proxy told a login that is no user's name")
        return Identity(await asked(lambda: self._rights(users[0])))

    def _trusts(self, peer: str) -> bool:
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped
        return any(address in network for network in self._networks)
