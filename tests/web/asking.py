"""Asking the pages as browsers, machines and attackers do: a real server, one session."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import requests
from starlette.types import ASGIApp

from firstfault.web import server


class Client:
    """Asks a server at ``base``."""

    def __init__(self, base: str) -> None:
        self.base = base
        self._session = requests.Session()

    def ask(self, method: str, path: str, **more: Any) -> requests.Response:
        return self._session.request(
            method, self.base + path, timeout=10, allow_redirects=False, **more
        )

    def get(self, path: str, **more: Any) -> requests.Response:
        return self.ask("GET", path, **more)

    def post(self, path: str, **more: Any) -> requests.Response:
        return self.ask("POST", path, **more)

    def raw(self, path: str, headers: Sequence[tuple[str, str]], method: str = "GET") -> int:
        """The status of a request with just these headers, each as often as it is named."""
        host, port = urlsplit(self.base).hostname, urlsplit(self.base).port
        lines = [f"{method} {path} HTTP/1.1", *(f"{key}: {value}" for key, value in headers)]
        with socket.create_connection((host, port), 10) as sock:
            sock.sendall("".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1"))
            return int(sock.makefile("rb").readline().split()[1])


@contextmanager
def asked(app: ASGIApp) -> Iterator[Client]:
    """A client of ``app``, which is served as the daemon serves it."""
    sock = server.listener("127.0.0.1", 0)
    with server.serving(app, sock):
        yield Client(server.address(sock))
