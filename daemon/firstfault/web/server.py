"""Serving the pages with uvicorn, in a thread of the daemon."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from firstfault.web.connection import HEAD_BYTES, Connection

STOP_S = 1.0
CONNECTIONS = 400
# In the scope of each request: a function that says whether the server is ending. An answer that
# lasts ends then by itself.
IS_ENDING = "firstfault.is_ending"


def listener(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises OSError."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    # asyncio sends small parts at once (TCP_NODELAY) only where it sees that this is TCP.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(128)
    except OSError:
        sock.close()
        raise
    return sock


def address(sock: socket.socket) -> str:
    """The URL under which ``sock`` is reached."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextmanager
def serving(application: ASGIApp, sock: socket.socket) -> Iterator[None]:
    """Serves ``application`` on ``sock`` while the block runs; closes the socket after."""

    async def told(scope: Scope, receive: Receive, send: Send) -> None:
        scope[IS_ENDING] = lambda: server.should_exit
        await application(scope, receive, send)

    config = uvicorn.Config(
        told,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=int(STOP_S),
        limit_concurrency=CONNECTIONS,
        http=Connection,
        h11_max_incomplete_event_size=HEAD_BYTES,
        ws="none",
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [sock]}, name="web", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(STOP_S + 1.0)
        sock.close()
