"""The daemon's API, asked by the command line: docs/api.md.

Who asks is told by a token where one is given, else by MUNGE where it is installed: each credential
is good for the one request that it was made for.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import re
import shutil
import ssl
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qs, quote, urlsplit

import msgspec
import requests

from firstfault.model.board import Failure, FailureFilter, FailurePage
from firstfault.model.jobs import StoredVerdict
from firstfault.web.api import values
from firstfault.web.api.operations import PREFIX
from firstfault.web.problems import MEDIA_TYPE, Problem
from firstfault.web.signed import SCHEME, statement

CONNECT_S = 5.0
ANSWER_S = 60.0
_MUNGE_S = 10.0
_MUNGE_PATH = "/usr/bin:/usr/local/bin:/bin"
_TOKEN = re.compile(r"[!-~]{1,300}")

T = TypeVar("T")


# The value of the header Authorization for a request (method, path and query, host); "" for none.
Authorize = Callable[[str, str, str], str]


class RemoteError(Exception):
    """The daemon did not answer, or not what was asked for; the message says what to do."""


class RemoteRefusal(RemoteError):
    """The daemon answered that it does not; ``status`` is HTTP's."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Remote:
    """A daemon, asked over HTTP. ``remedy`` is said where nothing answers there."""

    def __init__(self, url: str, authorize: Authorize, remedy: str = "") -> None:
        self.url = url
        self._authorize = authorize
        self._remedy = remedy
        self._session = requests.Session()
        # Neither a proxy for the world outside nor a .netrc has to do with it.
        self._session.trust_env = False
        self._session.verify = _authorities()

    def failures(self, which: FailureFilter, page: str | None, limit: int) -> FailurePage:
        """A page of failures. Raises `RemoteError`."""
        asked = {name: _said(value) for name, value in msgspec.structs.asdict(which).items()}
        asked |= {"page": page, "limit": str(limit)}
        found = self._get("/failures", asked, values.Failures)
        return FailurePage(found.failures, _page(found.next), _page(found.previous))

    def nodes(self, hours: int, until: dt.datetime, cluster: str | None) -> values.Nodes:
        """The nodes of a time. Raises `RemoteError`."""
        asked = {"hours": str(hours), "until": _said(until), "cluster": cluster}
        try:
            return self._get("/nodes", asked, values.Nodes)
        except RemoteRefusal as refusal:
            if refusal.status != 404:
                raise
            raise RemoteError(f"{self.url}: nodes are for administrators alone") from refusal

    def ends(self, job: str) -> tuple[Failure, ...]:
        """Every failed end of jobs of a number, the newest first. Raises `RemoteError`."""
        return self._get(f"/jobs/{quote(job, safe='')}", {}, values.Ends).failures

    def stored(self, end: Failure) -> StoredVerdict:
        """The newest verdict of a failure. Raises `RemoteError`."""
        path = f"/failures/{quote(end.cluster or '-', safe='')}/{quote(end.job, safe='')}"
        found = self._get(path, {"incarnation": str(end.incarnation)}, values.FailureDetail)
        return StoredVerdict(
            end.cluster, end.job, end.incarnation, found.revision, found.created_at, found.verdict
        )

    def _get(self, path: str, asked: Mapping[str, str | None], kind: type[T]) -> T:
        given = {name: value for name, value in asked.items() if value is not None}
        request = requests.Request("GET", f"{self.url.rstrip('/')}{PREFIX}{path}", params=given)
        try:
            prepared = self._session.prepare_request(request)
            host = urlsplit(prepared.url or "").netloc
            if said := self._authorize("GET", prepared.path_url, host):
                prepared.headers["Authorization"] = said
            answer = self._session.send(
                prepared, timeout=(CONNECT_S, ANSWER_S), allow_redirects=False
            )
        except (requests.exceptions.SSLError, requests.exceptions.InvalidURL) as error:
            raise RemoteError(f"{self.url}: {_reason(error)}") from error
        except requests.ConnectionError as error:
            said = f"no daemon answers at {self.url}: {_reason(error)}. {self._remedy}"
            raise RemoteError(said.rstrip()) from error
        except (requests.RequestException, ValueError) as error:
            raise RemoteError(f"{self.url}: {_reason(error)}") from error
        try:
            return self._read(answer, kind)
        except RemoteRefusal as refusal:
            if refusal.status != 401 or said:
                raise
            raise RemoteError(
                f"{refusal} Nothing told it who you are: no token is given, and MUNGE made no "
                f"credential here (is it installed, and does munged run?)"
            ) from refusal

    def _read(self, answer: requests.Response, kind: type[T]) -> T:
        if answer.status_code == 200:
            try:
                return msgspec.json.decode(answer.content, type=kind)
            except (msgspec.DecodeError, UnicodeDecodeError):
                raise self._strange("answers something else than this program reads") from None
        if answer.is_redirect:
            raise self._strange(
                f"sends its readers on to {answer.headers['location'][:200]}: what asks for a "
                f"login there must let {PREFIX}/ through"
            )
        try:
            if answer.headers.get("content-type") != MEDIA_TYPE:
                raise msgspec.DecodeError
            problem = msgspec.json.decode(answer.content, type=Problem)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise self._strange(f"answers with status {answer.status_code}") from None
        raise RemoteRefusal(f"{self.url}: {problem.detail}", answer.status_code)

    def _strange(self, said: str) -> RemoteError:
        return RemoteError(f"{self.url} {said}. Is it the address of firstfault's pages?")


def by_token(token: str, url: str) -> Authorize:
    """Asks with a machine's token. Raises `RemoteError` where it is none, or where anyone on the
    way to ``url`` could read it."""
    where = urlsplit(url)
    if where.scheme != "https" and not _is_loopback(where.hostname or ""):
        raise RemoteError(f"{url}: a token is sent by https:// only, but for this machine")
    if not _TOKEN.fullmatch(token):
        raise RemoteError("the token is not one word: firstfault token new NAME prints one")
    return lambda _method, _target, _host: f"Bearer {token}"


def token_in(path: Path) -> str:
    """The token in a file. Raises `RemoteError`."""
    try:
        return path.read_text("ascii").strip()
    except OSError as error:
        raise RemoteError(f"the token's file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RemoteError(f"the token's file {path} holds no token") from error


def by_munge(method: str, target: str, host: str) -> str:
    """Asks as the user that this runs as, by MUNGE; as nobody where it is not installed or does
    not answer: where the daemon asks nobody who they are, that is enough."""
    munge = shutil.which("munge", path=_MUNGE_PATH)
    socket = os.environ.get("FIRSTFAULT_MUNGE_SOCKET")
    if munge is None:
        return ""
    try:
        made = subprocess.run(  # noqa: S603 - found in the system's own folders
            [munge, *([f"--socket={socket}"] if socket else [])],
            input=statement(method, target, host, b"", time.time()),
            capture_output=True,
            check=False,
            timeout=_MUNGE_S,
            env={"LC_ALL": "C", "PATH": _MUNGE_PATH},
        )
        credential = made.stdout.decode("ascii").strip()
    except (OSError, subprocess.SubprocessError, UnicodeError):
        return ""
    return f"{SCHEME} {credential}" if made.returncode == 0 and credential else ""


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _authorities() -> bool | str:
    """The certificates of authorities: the system's, where a site adds its own."""
    for name in ("FIRSTFAULT_CA", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
        if os.environ.get(name):
            return os.environ[name]
    return ssl.get_default_verify_paths().cafile or True


def _page(address: str | None) -> str | None:
    return None if address is None else parse_qs(urlsplit(address).query)["page"][0]


def _said(value: object) -> str | None:
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")
    return None if value is None else str(value)


def _reason(error: Exception) -> str:
    """The last of what was wrapped by the others, without addresses in memory."""
    while (inner := error.__cause__ or error.__context__) is not None:
        if not isinstance(inner, Exception):
            break
        error = inner
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return re.sub(r"<[^<>]*object at 0x[0-9a-f]+>:? ?", "", text)[:300]
