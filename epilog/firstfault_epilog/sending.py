"""Requests to the daemon's intake: signed, bounded in time and size, over verified TLS.

What the daemon answers is a stranger's input.
"""

import http.client
import io
import json
import re
import socket
import ssl
import time
from typing import Any, Dict, NamedTuple, Optional

from firstfault_epilog import __version__, address, signing
from firstfault_epilog.address import Address
from firstfault_epilog.settings import Settings

RECORDS = "/v1/records"
WANTED = "/v1/wanted"
CONNECT_S = 10.0
# The daemon stores a record before it answers, and gives up after 30 s itself.
DEADLINE_S = 60.0
ANSWER_BYTES_MAX = 4 << 20
# A wrong or hostile answer does not silence a node for longer.
RETRY_AFTER_MAX_S = 3600.0


class Answer(NamedTuple):
    """What came back. ``status`` is None where nothing did: no connection, no signature, no time.

    ``document`` is the JSON object of the answer, empty where it is none; ``retry_after_s`` in
    seconds; ``fault`` says what went wrong, None with status 200.
    """

    status: Optional[int]
    document: Dict[str, Any]
    retry_after_s: Optional[float]
    fault: Optional[str]


class _Wire:
    """A connection as http.client uses one, with one deadline for all of it.

    http.client closes it before it reads the answer's body: closing is `_request`'s business.
    """

    def __init__(self, connected: socket.socket, deadline: float) -> None:
        self._socket = connected
        self._deadline = deadline

    def sendall(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            self._socket.settimeout(_left(self._deadline))
            view = view[self._socket.send(view[: 1 << 16]) :]

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Incoming(self._socket, self._deadline))

    def close(self) -> None:
        pass


class _Incoming(io.RawIOBase):
    """What comes in, until the deadline and up to `ANSWER_BYTES_MAX` with all headers."""

    def __init__(self, connected: socket.socket, deadline: float) -> None:
        super().__init__()
        self._socket = connected
        self._deadline = deadline
        self._room = ANSWER_BYTES_MAX

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._room <= 0:
            raise OSError(f"the answer is larger than {ANSWER_BYTES_MAX} bytes")
        self._socket.settimeout(_left(self._deadline))
        count = self._socket.recv_into(buffer, min(len(buffer), self._room))
        self._room -= count
        return count


def post(settings: Settings, path: str, node: str, body: bytes) -> Answer:
    """Sends ``body`` to ``path`` (`RECORDS`, `WANTED`) in the name of ``node``, signed anew.

    ``settings.daemon`` says where to. It takes at most `DEADLINE_S` and what the name service
    takes. Raises nothing: whatever fails is in the answer.
    """
    try:
        signature = signing.authorization(settings, path, node, body)
    except signing.SigningError as error:
        return Answer(None, {}, None, str(error))
    headers = {"Authorization": signature, "Content-Type": "application/octet-stream"}
    return _request(settings, "POST", path, headers, body)


def get(settings: Settings, path: str) -> Answer:
    """Asks for ``path`` without a signature; as `post`."""
    return _request(settings, "GET", path, {}, None)


# The boundary at which everything that a network and a stranger's answer can do becomes a value.
def _request(
    settings: Settings, method: str, path: str, headers: Dict[str, str], body: Optional[bytes]
) -> Answer:
    url = settings.daemon or ""
    deadline = time.monotonic() + DEADLINE_S
    try:
        place = address.parse(url)
    except ValueError as error:
        return Answer(None, {}, None, f"FIRSTFAULT_DAEMON: {error}")
    try:
        with _connected(place, settings.ca_file, deadline) as connected:
            connection = http.client.HTTPConnection(place.host, place.port)
            connection.sock = _Wire(connected, deadline)
            common = {"User-Agent": f"firstfault-epilog/{__version__}", "Connection": "close"}
            connection.request(method, path, body, {**common, **headers})
            response = connection.getresponse()
            return _answer(url, response, response.read(ANSWER_BYTES_MAX))
    except (OSError, ValueError, http.client.HTTPException) as error:
        return Answer(None, {}, None, f"{url}: {_said(error)}")


def _answer(url: str, response: http.client.HTTPResponse, data: bytes) -> Answer:
    try:
        document = json.loads(data.decode("utf-8"), parse_int=_integer)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        document = {}
    after = response.getheader("Retry-After", "")
    wait_s = min(float(after), RETRY_AFTER_MAX_S) if re.match(r"[0-9]{1,9}\Z", after) else None
    if response.status == 200:
        return Answer(200, document, wait_s, None)
    why = document.get("error")
    told = f": {printable(why)}" if isinstance(why, str) else ""
    return Answer(response.status, document, wait_s, f"{url} answered {response.status}{told}")


def printable(text: str) -> str:
    """A stranger's words for a log: at most 300 characters, none that steers a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text[:300])


# Python took minutes for a number of a million digits before 3.11.
def _integer(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError("a number of more than 20 digits")
    return int(digits)


def _connected(place: Address, ca_file: Optional[str], deadline: float) -> socket.socket:
    context = None
    if place.scheme == "https":
        try:
            context = ssl.create_default_context(cafile=ca_file)
        except OSError as error:
            raise OSError(f"FIRSTFAULT_CA_FILE {ca_file}: {error.strerror or error}")
    fault: Optional[OSError] = None
    for family, kind, protocol, _, where in socket.getaddrinfo(
        place.host, place.port, 0, socket.SOCK_STREAM
    ):
        connected = socket.socket(family, kind, protocol)
        try:
            connected.settimeout(min(CONNECT_S, _left(deadline)))
            connected.connect(where)
            if context is None:
                return connected
            # A daemon to which thousands of nodes connect takes its time.
            connected.settimeout(_left(deadline))
            return context.wrap_socket(connected, server_hostname=place.host)
        except OSError as error:
            connected.close()
            fault = error
    raise fault or OSError("the name has no address")


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise socket.timeout
    return left


def _said(error: Exception) -> str:
    if isinstance(error, socket.timeout):
        return f"no answer in time ({CONNECT_S:g} s to connect, {DEADLINE_S:g} s for all)"
    if isinstance(error, ssl.SSLError):
        words = getattr(error, "verify_message", None) or error.reason or error
        return f"TLS: {words}; see FIRSTFAULT_CA_FILE"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return printable(str(error)) or type(error).__name__
