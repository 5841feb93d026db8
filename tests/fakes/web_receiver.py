"""A real HTTP server in the place of a site's own program: keeps what is posted, answers as told."""

from __future__ import annotations

import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import NamedTuple


class Post(NamedTuple):
    """One request: its path, headers (names in lower case) and body."""

    path: str
    headers: dict[str, str]
    body: bytes


class WebReceiver:
    """Listens on 127.0.0.1 while the context is entered.

    ``status`` None: the connection is closed without an answer. ``trickles``: it sends headers
    without end.
    """

    def __init__(self) -> None:
        self.posts: list[Post] = []
        self.status: int | None = 200
        self.headers: dict[str, str] = {}
        self.trickles = False
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver._take(self)

            def log_message(self, *args: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._ended = threading.Event()

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        """A path of this server, as a webhook's that holds a secret."""
        return f"http://{self.address}/hook/SECRET-PART"

    def _take(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.posts.append(Post(request.path, headers, body))
        request.close_connection = True
        if self.status is None:
            return
        with suppress(OSError):  # who does not wait for the answer
            self._answer(request)

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        assert self.status is not None
        request.send_response(self.status)
        for name, value in self.headers.items():
            request.send_header(name, value)
        while self.trickles and not self._ended.wait(0.05):
            request.wfile.write(b"X-Slow: 1\r\n")
        request.end_headers()
        request.wfile.write(b"said")

    def __enter__(self) -> WebReceiver:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)
