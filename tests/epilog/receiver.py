"""A daemon's intake as a node sees it: a real HTTP(S) server in the test's process."""

from __future__ import annotations

import gzip
import json
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import pytest


class Request(NamedTuple):
    """What came in."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def record(self) -> dict[str, Any]:
        """The evidence record in the body."""
        found: dict[str, Any] = json.loads(gzip.decompress(self.body))
        return found


class Reply(NamedTuple):
    """What is answered; ``status`` None: nothing, the connection is closed."""

    status: int | None
    document: object = None
    headers: Mapping[str, str] = {}


STORED = Reply(200, {"result": "stored"})
KNOWN = Reply(200, {"result": "known"})


class Receiver:
    """Answers each request as ``answer`` says, by default as a daemon that stores every record.

    ``stored`` are the ids of records that were answered with 200, each as often as it came.
    """

    def __init__(self, tls: Certificate | None = None, port: int = 0) -> None:
        self.requests: list[Request] = []
        self.stored: list[str] = []
        self.answer: Callable[[Request], Reply] = lambda _: STORED
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self._reply(Request("POST", self.path, dict(self.headers), body))

            def do_GET(self) -> None:
                self._reply(Request("GET", self.path, dict(self.headers), b""))

            def _reply(self, request: Request) -> None:
                receiver.requests.append(request)
                reply = receiver.answer(request)
                if reply.status is None:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                if reply.status == 200 and request.path == "/v1/records":
                    receiver.stored.append(request.record["id"])
                data = reply.document
                if not isinstance(data, bytes):
                    data = json.dumps(data).encode()
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            # A node that was killed, or that does not trust the certificate, went away.
            def handle_error(self, *_: object) -> None:
                pass

        self._server = Server(("127.0.0.1", port), Handler)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls.certificate, tls.key)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
            self.url = f"https://localhost:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Certificate(NamedTuple):
    """PEM files; the certificate is its own authority."""

    certificate: Path
    key: Path


def certificate(folder: Path, name: str = "localhost") -> Certificate:
    """A certificate for the host ``name``, signed by itself."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl: makes a certificate")
    made = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    argv += ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    argv += ["-out", str(made.certificate), "-keyout", str(made.key)]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)
    return made
