"""HTTP/1.1 for many nodes at once: every wait has an end, every buffer a size.

h11 reads and writes the protocol; this opens and closes connections. docs/decisions/ tells why it
is not the pages' server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import h11
import msgspec

LOGGER = logging.getLogger("firstfault")

HEAD_BYTES = 32 * 1024
CHUNK_BYTES = 64 * 1024
# A sender that was refused before it had sent all gets so much time and so many bytes to hear it.
LINGER_S = 2.0
LINGER_BYTES = 64 * 1024 * 1024
STOP_S = 3.0
BACKLOG = 4096


class Times(msgspec.Struct, frozen=True):
    """Seconds that a sender has: ``head_s`` from connecting (or the answer before) to the whole
    head, and for TLS; ``body_s`` from the head to the last byte of the body."""

    head_s: float = 10.0
    body_s: float = 30.0


class Answer(msgspec.Struct, frozen=True):
    """What is answered; ``retry_after_s`` None: no such header."""

    status: int
    body: bytes
    media_type: str = "application/json"
    retry_after_s: int | None = None


class TooLarge(Exception):
    """The body is larger than it may be."""


class Cut(Exception):
    """The sender went away, was too slow, or does not speak HTTP: nobody to answer to."""


class Exchange:
    """One request: its head, and its body as the handler wants it."""

    def __init__(self, request: h11.Request, connection: _Connection) -> None:
        self.method = request.method.decode("ascii")
        self.path = request.target.decode("ascii").partition("?")[0]
        self.peer = connection.peer
        self._headers = request.headers
        self._connection = connection

    def header(self, name: str) -> str | None:
        """The value of a header (``name`` in lower case); None where it is absent or not alone."""
        found = [value for key, value in self._headers if key == name.encode()]
        return found[0].decode("latin-1") if len(found) == 1 else None

    async def body(self, most: int, take: Callable[[int], None]) -> bytes:
        """The whole body. ``take`` is told of its bytes before they are kept, and may raise.

        Raises `TooLarge` for more than ``most`` bytes, and `Cut`.
        """
        declared = int(self.header("content-length") or 0)
        if declared > most:
            raise TooLarge
        take(declared)
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._connection.times.body_s):
                while data := await self._connection.data():
                    size += len(data)
                    if size > most:
                        raise TooLarge
                    if size > declared:  # chunked: nothing was declared
                        take(len(data))
                    parts.append(data)
        except TimeoutError as error:
            raise Cut("the body did not come in time") from error
        return b"".join(parts)


# May raise `Cut`; anything else that it raises is answered with 500.
Handler = Callable[[Exchange], Awaitable[Answer]]


class _Connection:
    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, times: Times
    ) -> None:
        self.times = times
        # The sender's address; "" where it went away at once.
        self.peer = str((writer.get_extra_info("peername") or ("",))[0])
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)

    async def serve(self, handler: Handler, busy: Callable[[], bool]) -> None:
        """Answers requests until the sender ends, is too slow, or others wait for the place."""
        while True:
            method = b""
            try:
                async with asyncio.timeout(self.times.head_s):
                    event = await self._event()
                if not isinstance(event, h11.Request):
                    return
                method = event.method
                answer = await handler(Exchange(event, self))
            except h11.RemoteProtocolError as error:
                answer = Answer(error.error_status_hint, b'{"error": "not HTTP"}')
            except (Cut, TimeoutError):
                raise
            except Exception:  # boundary: one request must not end the service
                LOGGER.exception("request-error", extra={"values": {}})
                answer = Answer(500, b'{"error": "the daemon failed; its log says why"}')
            whole = self._http.their_state is h11.DONE
            await self._send(answer, method, last=busy() or not whole)
            if not whole:
                await self._linger()
            if not whole or self._http.our_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def data(self) -> bytes:
        """The next bytes of the body, b"" at its end. Raises `Cut` and h11.RemoteProtocolError."""
        if self._http.they_are_waiting_for_100_continue:
            self._writer.write(
                self._http.send(h11.InformationalResponse(status_code=100, headers=[]))
            )
        event = await self._event()
        if isinstance(event, h11.Data):
            return bytes(event.data)
        if isinstance(event, h11.EndOfMessage):
            return b""
        raise Cut("the sender went away")

    async def _event(self) -> object:
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            self._http.receive_data(await self._reader.read(CHUNK_BYTES))

    async def _send(self, answer: Answer, method: bytes, *, last: bool) -> None:
        headers = [
            ("content-type", answer.media_type),
            ("content-length", str(len(answer.body))),
            ("cache-control", "no-store"),
        ]
        if answer.retry_after_s is not None:
            headers.append(("retry-after", str(answer.retry_after_s)))
        if last:
            headers.append(("connection", "close"))
        events: list[h11.Event] = [h11.Response(status_code=answer.status, headers=headers)]
        if method != b"HEAD":
            events.append(h11.Data(data=answer.body))
        events.append(h11.EndOfMessage())
        self._writer.write(b"".join(self._http.send(event) or b"" for event in events))
        async with asyncio.timeout(self.times.head_s):
            await self._writer.drain()

    async def _linger(self) -> None:
        # Closed with bytes unread, the kernel would send a reset that overtakes the answer.
        if self._writer.can_write_eof():
            self._writer.write_eof()
        left = LINGER_BYTES
        async with asyncio.timeout(LINGER_S):
            while left > 0 and (data := await self._reader.read(CHUNK_BYTES)):
                left -= len(data)


class Listener:
    """Serves in a thread of its own. At most ``connections`` are open at once; the kernel keeps
    further ones waiting, which costs no memory here."""

    def __init__(
        self,
        handler: Handler,
        sock: socket.socket,
        tls: ssl.SSLContext | None,
        times: Times,
        connections: int,
    ) -> None:
        self._handler = handler
        self._socket = sock
        self._tls = tls
        self._times = times
        self._connections = connections
        self._open: set[asyncio.Task[None]] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Serves until ``stop``; what is being answered then gets `STOP_S` to end."""
        self._socket.setblocking(False)
        free = asyncio.Semaphore(self._connections)
        accepting = asyncio.create_task(self._accept(free))
        await stop.wait()
        accepting.cancel()
        if self._open:
            await asyncio.wait(self._open, timeout=STOP_S)
        for task in self._open:
            task.cancel()
        await asyncio.gather(accepting, *self._open, return_exceptions=True)

    async def _accept(self, free: asyncio.Semaphore) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await free.acquire()
            try:
                sock, _ = await loop.sock_accept(self._socket)
            except OSError as error:
                # Out of descriptors, or the sender has gone again: neither ends the service.
                free.release()
                LOGGER.debug("not-accepted", extra={"values": {"error": error.strerror}})
                await asyncio.sleep(0.1)
                continue
            task = asyncio.create_task(self._serve(sock, free))
            self._open.add(task)
            task.add_done_callback(self._open.discard)

    async def _serve(self, sock: socket.socket, free: asyncio.Semaphore) -> None:
        writer = None
        try:
            reader, writer = await self._streams(sock)
            await _Connection(reader, writer, self._times).serve(self._handler, free.locked)
        except (OSError, TimeoutError, Cut, h11.ProtocolError) as error:
            LOGGER.debug("connection-ended", extra={"values": {"error": repr(error)}})
        except Exception:  # boundary: one connection must not end the others
            LOGGER.exception("connection-error", extra={"values": {}})
        finally:
            if writer is None:
                sock.close()
            else:
                writer.close()
            free.release()

    async def _streams(
        self, sock: socket.socket
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(CHUNK_BYTES, loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol,
            sock,
            ssl=self._tls,
            ssl_handshake_timeout=self._times.head_s if self._tls else None,
            ssl_shutdown_timeout=LINGER_S if self._tls else None,
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def listening(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises OSError."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def address(sock: socket.socket, secure: bool) -> str:
    """The URL under which ``sock`` is reached."""
    host, port = sock.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if secure else 'http'}://{shown}:{port}"


def tls(certificate: Path, key: Path) -> ssl.SSLContext:
    """What a server with these PEM files needs. Raises OSError (ssl.SSLError is one)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context


@contextlib.contextmanager
def serving(listener: Listener) -> Iterator[None]:
    """Serves in a thread while the block runs."""
    begun = threading.Event()
    end: list[Callable[[], object]] = []

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        end.append(lambda: loop.call_soon_threadsafe(stop.set))
        begun.set()
        await listener.run(stop)

    thread = threading.Thread(target=lambda: asyncio.run(main()), name="intake-http", daemon=True)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        end[0]()
        thread.join(STOP_S + 2.0)
