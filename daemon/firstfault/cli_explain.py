"""``firstfault explain``: diagnoses logs that lie on disk or come on standard input."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click

from firstfault.diagnosis import diagnose
from firstfault.intake.files import Progress, UnreadableInput, gather
from firstfault.intake.site import install
from firstfault.model import verdict as v
from firstfault.model.texts import storable
from firstfault.report import html, text
from firstfault.report.masking import masked
from firstfault.report.wording import visible
from firstfault.signatures import SignatureError

NONE, UNKNOWN, BAD_INPUT = 3, 4, 2
_MOST_WARNINGS = 20
_TOLD_EACH_S = 0.5


@click.command()
@click.argument("paths", nargs=-1, metavar="PATH... | -")
@click.option(
    "--format",
    "form",
    type=click.Choice(("text", "json", "html")),
    default="text",
    show_default=True,
    help="How the verdict is printed.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write it to this file.")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME=PATH",
    help="These logs are of host NAME. May be given several times.",
)
@click.option(
    "--signatures",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A folder of signatures of your own (*.toml).",
)
def explain(
    paths: tuple[str, ...],
    form: str,
    output: Path | None,
    hosts: tuple[str, ...],
    signatures: Path | None,
) -> None:
    """Tell what failed first in the logs of a job.

    PATH is a file or a folder (searched through); - is standard input. Job output, per-rank
    logs, error.json, kernel logs, sacct and Epilog environments are told apart by their content.
    Logs packed with gzip, xz or zstd are read as they are; a named pipe is read to its end, and
    given up if nobody writes into it within 10 seconds. In a folder, files are read once, links
    to other folders are not followed, and what cannot be read is left out with a warning; logs in
    a folder named like a host that other logs name are taken as that host's.

    \b
    Exit status: 0 a cause was found, 3 the job did not fail, 4 the cause is not known,
    2 the input or a signature cannot be read.
    """
    named = dict(_named(each) for each in hosts)
    if not paths and not named:
        raise click.UsageError("name a file, a folder, or - for standard input")
    try:
        if signatures:
            install(signatures)
        with _progress() as progress:
            gathered = gather(paths, named, sys.stdin.buffer if sys.stdin else None, progress)
    except (UnreadableInput, SignatureError) as error:
        _tell(str(error))
        sys.exit(BAD_INPUT)
    for warning in gathered.warnings[:_MOST_WARNINGS]:
        _tell(warning)
    if len(gathered.warnings) > _MOST_WARNINGS:
        _tell(f"{len(gathered.warnings) - _MOST_WARNINGS} more files were left out")
    verdict = masked(storable(diagnose(gathered.case)))
    _write(_rendered(verdict, form, to_file=output is not None), output)
    sys.exit({"none": NONE, "unknown": UNKNOWN}.get(verdict.cause.id, 0))


# A line on a terminal that is written over, and taken off at the end.
@contextlib.contextmanager
def _progress() -> Iterator[Progress | None]:
    if not sys.stderr.isatty():
        yield None
        return
    told_at = time.monotonic()
    shown = False

    def progress(name: str, count: int) -> None:
        nonlocal told_at, shown
        if time.monotonic() - told_at < _TOLD_EACH_S:
            return
        told_at = time.monotonic()
        shown = True
        line = f"firstfault: reading {visible(name)}: {count >> 20} MiB"
        sys.stderr.write(f"\r{line[: shutil.get_terminal_size().columns - 1]}\x1b[K")
        sys.stderr.flush()

    try:
        yield progress
    finally:
        if shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


# File names are strangers' words, too: to a terminal nothing but what can be seen.
def _tell(message: str) -> None:
    click.echo(f"firstfault: {visible(message)}", err=True)


def _named(option: str) -> tuple[str, str]:
    name, separator, path = option.partition("=")
    if not separator or not name or not path:
        raise click.UsageError(f"--host {option}: expected NAME=PATH")
    return path, name


def _rendered(verdict: v.Verdict, form: str, *, to_file: bool) -> bytes:
    if form == "json":
        return v.encode(verdict)
    if form == "html":
        return html.render(verdict).encode("utf-8")
    terminal = sys.stdout.isatty() and not to_file
    color = terminal and not os.environ.get("NO_COLOR")
    width = min(shutil.get_terminal_size().columns, 100) if terminal else 80
    return text.render(verdict, width=width, color=color).encode("utf-8")


def _write(data: bytes, output: Path | None) -> None:
    try:
        if output is None:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        else:
            output.write_bytes(data)
    except BrokenPipeError:
        # The reader (head, a pager) has seen enough; Python must not write the rest at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        _tell(f"cannot write {output or 'to standard output'}: {error.strerror or error}")
        if output is None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BAD_INPUT)
