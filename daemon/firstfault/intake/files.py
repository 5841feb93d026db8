"""Evidence that lies on disk or comes on standard input: for ``firstfault explain``."""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import io
import lzma
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, cast

import msgspec
import zstandard

from firstfault.intake.case import case as case_of_records
from firstfault.intake.excerpts import Cut, cut
from firstfault.model import evidence
from firstfault.model.case import Case
from firstfault.model.document import Document
from firstfault.readers.kind import Kind, kind

_GZIP, _XZ, _ZSTD = b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"
# Files of a run's folder that are no logs: told by their first bytes.
_BINARY = (b"PK\x03\x04", b"\x7fELF", b"\x89PNG", b"\x80\x02", b"\x80\x04", b"\x93NUMPY", b"SQLite")


class UnreadableInput(Exception):
    """A path that cannot be read; the message names it and says why."""


class Gathered(msgspec.Struct, frozen=True):
    """The case, and what a person should know of how it was gathered."""

    case: Case
    warnings: tuple[str, ...]


def gather(paths: Iterable[str], hosts: Mapping[str, str], stdin: BinaryIO) -> Gathered:
    """The case in ``paths`` (files, folders, "-"); ``hosts`` maps a path to its host.

    Raises `UnreadableInput` for a named path that is not there or cannot be read. What cannot
    be read in a folder is a warning.
    """
    documents: list[Document] = []
    records: list[evidence.EvidenceRecord] = []
    warnings: list[str] = []
    for path, name in _files([*paths, *hosts], warnings):
        host = next((h for p, h in hosts.items() if _is_under(name, p)), None)
        try:
            found = _from_stdin(stdin) if path is None else _from_file(path)
        except (OSError, EOFError, lzma.LZMAError, zstandard.ZstdError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            if name in paths or name in hosts:
                raise UnreadableInput(f"{name}: {reason}") from error
            warnings.append(f"{name}: {reason}; left out")
            continue
        if found is None:
            continue
        document = Document(
            name,
            found[0].excerpts,
            host=host,
            complete=found[0].complete,
            size=found[0].size,
            modified_at=found[1],
        )
        if kind(document) is Kind.RECORD:
            try:
                records.append(evidence.decode(b"".join(e.data for e in document.excerpts)))
                continue
            except evidence.EvidenceError as error:
                warnings.append(f"{name}: {error}; left out")
                continue
        documents.append(document)
    return Gathered(_case(documents, records), tuple(warnings))


def _case(documents: list[Document], records: list[evidence.EvidenceRecord]) -> Case:
    if not records:
        return Case(documents=tuple(documents))
    found = case_of_records(records, None)
    return msgspec.structs.replace(found, documents=(*found.documents, *documents))


def _is_under(name: str, path: str) -> bool:
    return name == path or name.startswith(path.rstrip("/") + "/")


# The files to read with their names, each once and in the names' order: the same input gives
# the same answer, whatever the order of the arguments.
def _files(paths: Iterable[str], warnings: list[str]) -> Iterator[tuple[Path | None, str]]:
    found: dict[str, Path | None] = {}
    for name in paths:
        if name == "-":
            found["-"] = None
            continue
        path = Path(name)
        try:
            if path.is_dir():
                found.update((str(file), file) for file in _walk(path, warnings))
            else:
                found[name] = path
        except OSError as error:
            raise UnreadableInput(f"{name}: {error.strerror or error}") from error
    yield from ((found[name], name) for name in sorted(found))


def _walk(folder: Path, warnings: list[str]) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        warnings.append(f"{folder}: {error.strerror or error}; left out")
        return
    for entry in entries:
        if entry.is_dir() and not entry.is_symlink():
            yield from _walk(entry, warnings)
        elif entry.is_file():
            yield entry


def _from_stdin(stdin: BinaryIO) -> tuple[Cut, None]:
    with _decompressed(
        cast(io.BufferedReader, io.BufferedReader(cast(io.RawIOBase, stdin)))
    ) as stream:
        return cut(stream), None


def _from_file(path: Path) -> tuple[Cut, dt.datetime] | None:
    with path.open("rb") as file:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISFIFO(status.st_mode):
            raise OSError(0, "neither a file nor a folder")
        if file.peek(8).startswith(_BINARY):
            return None
        with _decompressed(file) as stream:
            return cut(stream), dt.datetime.fromtimestamp(status.st_mtime, dt.UTC)


@contextlib.contextmanager
def _decompressed(file: io.BufferedReader) -> Iterator[BinaryIO]:
    head = file.peek(8)
    if head.startswith(_GZIP):
        with gzip.GzipFile(fileobj=file) as stream:
            yield cast(BinaryIO, stream)
    elif head.startswith(_XZ):
        with lzma.LZMAFile(file) as stream:
            yield cast(BinaryIO, stream)
    elif head.startswith(_ZSTD):
        with zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as stream:
            yield cast(BinaryIO, stream)
    else:
        yield file
