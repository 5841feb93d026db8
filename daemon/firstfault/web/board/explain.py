"""Explain: logs that the reader pastes or sends, and the verdict on them.

The logs are never kept. The report is where the reader wishes it (`firstfault.web.board.explained`).
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple
from urllib.parse import urlencode

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from firstfault.model.board import Reader
from firstfault.model.explained import (
    Explained,
    Explainer,
    Keeper,
    KeptPage,
    NotExplained,
    NotKept,
    Upload,
)
from firstfault.model.verdict import Verdict
from firstfault.report import wording as w
from firstfault.report.masking import masked
from firstfault.web.board import explained
from firstfault.web.board.layout import answer
from firstfault.web.places import Place
from firstfault.web.refusals import Refusal

PASTED = "pasted.log"
MOST_FILES = 500
_MOST_HOSTS = 500
_LONGEST_HOSTS = 64 * 1024
# What a form adds to the files that it carries.
_FORM_BYTES = 1 << 20
_LONGEST_NAME = 120
_DEPTH = 4
LONGEST_TITLE = 256
_STRANGE = re.compile(r"[^A-Za-z0-9._+@=-]+")
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?", re.ASCII)


class Wrong(ValueError):
    """What was sent cannot be explained; the message says why."""


class Sent(NamedTuple):
    """What came with the form."""

    uploads: list[Upload]
    hosts: dict[str, str]


class Filled(NamedTuple):
    """What is shown in the form as it was filled in, and what is ``wrong`` with that."""

    wrong: str | None = None
    hosts: str = ""
    keep: bool = False
    title: str = ""


_EMPTY = Filled()


def places(explainer: Explainer | None, keeper: Keeper | None = None) -> list[Place]:
    """/explain; no places where ``explainer`` is None (turned off). Without a ``keeper`` nothing
    is kept."""
    if explainer is None:
        return []
    used = explainer

    async def form(request: Request, reader: Reader) -> Response:
        return await run_in_threadpool(_form, request, reader, used, keeper)

    async def explain(request: Request, reader: Reader) -> Response:
        async with request.form(max_files=MOST_FILES, max_part_size=used.max_bytes) as given:
            title = _field(given, "title").strip()
            keeping = None if keeper is None or not _field(given, "keep") else keeper
            try:
                if keeping is not None:
                    await run_in_threadpool(_check, keeping, reader, title)
                found, first = await run_in_threadpool(_explained, used, given)
            except (Wrong, NotExplained, NotKept) as error:
                statuses = {Wrong: 422, NotExplained: 503, NotKept: 409}
                filled = Filled(
                    str(error), _field(given, "hosts"), keeping is not None, title[:LONGEST_TITLE]
                )
                return await run_in_threadpool(
                    _form, request, reader, used, keeper, filled, statuses[type(error)]
                )
        return await run_in_threadpool(_answer, request, reader, found, keeping, title, first)

    return [
        Place("/explain", form, "reader"),
        Place(
            "/explain",
            explain,
            "reader",
            ("POST",),
            body_bytes=used.max_bytes + _FORM_BYTES,
            costly=True,
        ),
    ]


def title_of(given: str, verdict: Verdict, first: str) -> str:
    """What a report is called: as its maker wishes, or by its job, or by the first file's name."""
    return given or (f"Job {verdict.job.id}" if verdict.job.id else first)


def _form(
    request: Request,
    reader: Reader,
    explainer: Explainer,
    keeper: Keeper | None,
    filled: Filled = _EMPTY,
    status: int = 200,
) -> Response:
    asked = request.query_params.get("page") if request.method != "POST" else None
    try:
        own = KeptPage(()) if keeper is None else keeper.listed(reader, asked)
    except ValueError:
        raise Refusal(400, "There is no such page of kept reports: begin at the first.") from None
    return answer(
        "explain.html",
        request,
        reader,
        status=status,
        wrong=filled.wrong,
        hosts=filled.hosts[:_LONGEST_HOSTS],
        most=explainer.max_bytes,
        most_files=MOST_FILES,
        keep_for=None if keeper is None else _days(keeper.days),
        signs=keeper is not None and keeper.signs(),
        keep=filled.keep,
        title=filled.title,
        longest_title=LONGEST_TITLE,
        reports=own.reports,
        first=asked is None,
        next=None if own.next is None else f"/explain?{urlencode({'page': own.next})}",
        forgotten=request.query_params.get("done") == "forgotten",
    )


def _days(days: float) -> str:
    return "1 day" if days == 1 else f"{days:g} days"


def _check(keeper: Keeper, reader: Reader, title: str) -> None:
    if len(title) > LONGEST_TITLE:
        raise Wrong(f"A title has at most {LONGEST_TITLE} characters.")
    keeper.check_room(reader)


# The report by its own address where it is to be kept, else as the answer alone.
def _answer(
    request: Request,
    reader: Reader,
    found: Explained,
    keeper: Keeper | None,
    title: str,
    first: str,
) -> Response:
    not_kept = None
    if keeper is not None:
        try:
            kept = keeper.keep(reader, found, title_of(title, found.verdict, first))
            return RedirectResponse(explained.path(kept), 303)
        except NotKept as error:
            not_kept = str(error)
    return explained.page(request, reader, found, not_kept=not_kept)


# What was found, and the first file's name.
def _explained(explainer: Explainer, form: FormData) -> tuple[Explained, str]:
    with ExitStack() as stack:
        sent = _sent(form, stack)
        found = explainer.explain(sent.uploads, sent.hosts)
    # A site's own patterns of secrets are known here, not to the process that explained.
    verdict = masked(found.verdict)
    return msgspec.structs.replace(found, verdict=verdict), sent.uploads[0].name


def _sent(form: FormData, stack: ExitStack) -> Sent:
    files = [each for each in form.getlist("files") if isinstance(each, UploadFile)]
    uploads = [(each.filename or "file", each.file) for each in files if each.size]
    pasted = _field(form, "log")
    if pasted.strip():
        file = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (entered)
        file.write(pasted.encode("utf-8", "surrogatepass"))
        uploads.append((PASTED, file))
    if not uploads:
        raise Wrong("Nothing was sent: paste a log, or choose files that are not empty.")
    names = list(names_of([name for name, _ in uploads]))
    sent = [Upload(name, file) for name, (_, file) in zip(names, uploads, strict=True)]
    return Sent(sent, _hosts(_field(form, "hosts"), names))


def names_of(given: Sequence[str]) -> Iterator[str]:
    """Names that are safe to show and to look up, each once: the last folders and the file."""
    seen = set[str]()
    for each in given:
        parts = [_STRANGE.sub("_", part)[-_LONGEST_NAME:] for part in re.split(r"[/\\]+", each)]
        parts = [part for part in parts if part.strip(".")] or ["file"]
        name = "/".join(parts[-_DEPTH:])
        known, number = name, 1
        while name in seen:
            number += 1
            name = f"{number}-{known}"
        seen.add(name)
        yield name


def _hosts(text: str, names: Sequence[str]) -> dict[str, str]:
    """Lines of "host = file or folder"; one host alone is that of all files."""
    if len(text) > _LONGEST_HOSTS:
        raise Wrong("Too much stands under hosts: a line for each file or folder is enough.")
    found: dict[str, str] = {}
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > _MOST_HOSTS:
        raise Wrong(f"Too much stands under hosts: at most {_MOST_HOSTS} lines are read.")
    for line in lines:
        host, is_named, path = (part.strip() for part in line.partition("="))
        if not HOST.fullmatch(host) or host == "localhost":
            raise Wrong(f"{w.clean(host, 80)!r} is no name of a host.")
        if not is_named:
            if len(lines) > 1:
                raise Wrong(
                    f"Of which file is {host}? Write a line for each: {host} = dmesg-{host}.txt"
                )
            return dict.fromkeys(names, host)
        path = next(names_of([path]))
        if not any(name == path or name.startswith(f"{path}/") for name in names):
            raise Wrong(f"No file that was sent is called {w.clean(path, 120)!r}.")
        found[path] = host
    return found


def _field(form: FormData, name: str) -> str:
    value = form.get(name)
    return value if isinstance(value, str) else ""
