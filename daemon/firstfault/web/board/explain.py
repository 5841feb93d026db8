"""Explain: logs that the reader pastes or sends, and the verdict on them. Nothing is kept."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import Response

from firstfault.model.board import Reader
from firstfault.model.explained import Explainer, NotExplained, Upload
from firstfault.report import html
from firstfault.report import wording as w
from firstfault.report.masking import masked
from firstfault.web.board.layout import answer
from firstfault.web.places import Place

PASTED = "pasted.log"
MOST_FILES = 500
_MOST_HOSTS = 500
_LONGEST_HOSTS = 64 * 1024
# What a form adds to the files that it carries.
_FORM_BYTES = 1 << 20
_LONGEST_NAME = 120
_DEPTH = 4
_MOST_WARNINGS = 20
_STRANGE = re.compile(r"[^A-Za-z0-9._+@=-]+")
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?", re.ASCII)


class Wrong(ValueError):
    """What was sent cannot be explained; the message says why."""


class Sent(NamedTuple):
    """What came with the form."""

    uploads: list[Upload]
    hosts: dict[str, str]


def places(explainer: Explainer | None) -> list[Place]:
    """/explain; no places where ``explainer`` is None (turned off)."""
    if explainer is None:
        return []
    used = explainer

    async def form(request: Request, reader: Reader) -> Response:
        return _form(request, reader, used)

    async def explain(request: Request, reader: Reader) -> Response:
        async with request.form(max_files=MOST_FILES, max_part_size=used.max_bytes) as given:
            hosts = _field(given, "hosts")
            try:
                report, warnings = await run_in_threadpool(_explained, used, given)
            except (Wrong, NotExplained) as error:
                status = 422 if isinstance(error, Wrong) else 503
                return _form(request, reader, used, str(error), hosts, status)
        return answer(
            "explained.html",
            request,
            reader,
            report=report,
            warnings=warnings[:_MOST_WARNINGS],
            left_out=max(0, len(warnings) - _MOST_WARNINGS),
        )

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


def _form(
    request: Request,
    reader: Reader,
    explainer: Explainer,
    wrong: str | None = None,
    hosts: str = "",
    status: int = 200,
) -> Response:
    return answer(
        "explain.html",
        request,
        reader,
        status=status,
        wrong=wrong,
        hosts=hosts[:_LONGEST_HOSTS],
        most=explainer.max_bytes,
        most_files=MOST_FILES,
    )


# The report, and what could not be read.
def _explained(explainer: Explainer, form: FormData) -> tuple[Markup, tuple[str, ...]]:
    with ExitStack() as stack:
        sent = _sent(form, stack)
        found = explainer.explain(sent.uploads, sent.hosts)
    # A site's own patterns of secrets are known here, not to the process that explained.
    body = html.body(masked(found.verdict))
    return Markup(body), found.warnings  # noqa: S704 - escaped by its template


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
