"""Evidence that lies on disk or comes on standard input: for ``firstfault explain``."""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import io
import lzma
import os
import select
import stat
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

import msgspec
import zstandard

from firstfault.intake.case import case as case_of_records
from firstfault.intake.excerpts import WHOLE, Again, Cut, Tell, cut
from firstfault.model import evidence
from firstfault.model.case import Case
from firstfault.model.document import Document
from firstfault.readers.flight_recorder import looks_like_dump
from firstfault.readers.kind import Kind, kind
from firstfault.readers.times import epoch

# How long a named pipe may stay without a writer or a byte.
PIPE_PATIENCE_S = 10
# What is kept of all files together, and of each at least, in bytes.
MOST_KEPT = 128 << 20
LEAST_KEPT = 16 << 10
# What a packed file or a pipe is taken to hold.
_PACKED = 8
_GZIP, _XZ, _ZSTD = b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"
# Files of a run's folder that are no logs: told by their first bytes.
_BINARY = (b"PK\x03\x04", b"\x7fELF", b"\x89PNG", b"\x80\x02", b"\x80\x04", b"\x93NUMPY", b"SQLite")


# Is told a huge file's name and how many bytes of it have been read.
Progress = Callable[[str, int], None]


class UnreadableInput(Exception):
    """A path that cannot be read; the message names it and says why."""


class _NoLog(OSError):
    """A file that was never a log: in a folder nobody needs to be told."""


_UNREADABLE = (
    OSError,
    EOFError,
    lzma.LZMAError,
    zlib.error,
    zstandard.ZstdError,
    evidence.EvidenceError,
)


class Gathered(msgspec.Struct, frozen=True):
    """The case, and what a person should know of how it was gathered."""

    case: Case
    warnings: tuple[str, ...]


def gather(
    paths: Iterable[str],
    hosts: Mapping[str, str],
    stdin: BinaryIO | None,
    progress: Progress | None = None,
) -> Gathered:
    """The case in ``paths`` (files, folders, "-"); ``hosts`` maps a path to its host.

    A file that two names lead to is read once. ``stdin`` is read for "-" only. ``progress`` is
    told the name of a huge file and how many of its bytes have been read. Raises
    `UnreadableInput` for a named path that is not there or cannot be read. What cannot be read
    in a folder is a warning.
    """
    named = {_spelled(path) for path in (*paths, *hosts)}
    places = {_spelled(path): host for path, host in hosts.items()}
    warnings: list[str] = []
    entries = list(_files(sorted(named), places, warnings))
    gathered = _gathered(entries, named, places, warnings, stdin, progress)
    if not (gathered.case.documents or gathered.case.nodes_reported or warnings):
        none = f"{', '.join(map(shown, sorted(named)))}: no logs there"
        return msgspec.structs.replace(gathered, warnings=(none,))
    return gathered


def gather_named(files: Mapping[str, Path], hosts: Mapping[str, str]) -> Gathered:
    """The case in ``files``: what each is called, and where a copy of it can be opened.

    ``hosts`` maps a name, or the folder in names, to its host. What cannot be read is a warning.
    When the files were last written is not known: the copies were written later.
    """
    places = {_spelled(path): host for path, host in hosts.items()}
    entries = [(files[name], name) for name in sorted(files)]
    return _gathered(entries, (), places, [], copies=True)


def _gathered(
    entries: Sequence[tuple[Path | None, str]],
    named: Collection[str],
    places: Mapping[str, str],
    warnings: list[str],
    stdin: BinaryIO | None = None,
    progress: Progress | None = None,
    *,
    copies: bool = False,
) -> Gathered:
    documents: list[Document] = []
    records: list[evidence.EvidenceRecord] = []
    limit = share([_expected(path, name) for path, name in entries], MOST_KEPT)
    for path, name in entries:
        tell = partial(progress, shown(name)) if progress else None
        try:
            found = (
                _from_stdin(stdin, limit, tell) if path is None else _from_file(path, limit, tell)
            )
            document = _document(name, (found[0], None) if copies else found, places)
            if kind(document) is Kind.RECORD:
                record = evidence.decode(b"".join(e.data for e in document.excerpts))
                evidence.documents(record)
                records.append(record)
            else:
                documents.append(document)
        except _UNREADABLE as error:
            reason = _reason(error)
            if name in named:
                raise UnreadableInput(f"{shown(name)}: {reason}") from error
            if not isinstance(error, _NoLog):
                warnings.append(f"{shown(name)}: {reason}; left out")
    return Gathered(_case(documents, records), tuple(warnings))


def share(sizes: Iterable[int], most: int = MOST_KEPT) -> int:
    """What may be kept of each of the files of ``sizes`` bytes, in bytes: `WHOLE` at the most.

    Small files leave what they do not need to the large ones; together they hold no more than
    ``most``, but for `LEAST_KEPT` of each.
    """
    left = most
    ordered = sorted(sizes)
    for n, size in enumerate(ordered):
        even = left // (len(ordered) - n)
        if size > even:
            return max(LEAST_KEPT, min(WHOLE, even))
        left -= min(size, WHOLE)
    return WHOLE


# How much there is in a file; nobody knows before it is read where it is packed or a pipe.
def _expected(path: Path | None, name: str) -> int:
    if path is None:
        return WHOLE
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return WHOLE
        packed = Path(name).suffix in (".gz", ".xz", ".zst", ".zstd")
        return min(WHOLE, status.st_size * (_PACKED if packed else 1))
    except OSError:
        return 0


def shown(name: str) -> str:
    """A file's name as it is shown: bytes that are not UTF-8 are spelled out."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _reason(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "the compressed data ends too early"
    return getattr(error, "strerror", None) or str(error)


def _document(
    name: str, found: tuple[Cut, dt.datetime | None], places: Mapping[str, str]
) -> Document:
    kept, modified_at = found
    return Document(
        shown(name),
        kept.excerpts,
        host=_host(name, places),
        complete=kept.complete,
        size=kept.size,
        modified_at=modified_at,
    )


# The nearest of the paths that were given a host.
def _host(name: str, places: Mapping[str, str]) -> str | None:
    above = [path for path in places if _is_under(name, path)]
    return places[max(above, key=len)] if above else None


# One spelling for "logs", "./logs" and "logs/"; "-" stays standard input, "./-" a file.
def _spelled(name: str) -> str:
    plain = str(Path(name))
    return name if plain == "-" else plain


def _case(documents: list[Document], records: list[evidence.EvidenceRecord]) -> Case:
    if not records:
        return Case(documents=tuple(documents))
    found = case_of_records(records, None)
    return msgspec.structs.replace(found, documents=(*found.documents, *documents))


def _is_under(name: str, path: str) -> bool:
    if path == ".":
        return not name.startswith(("/", "../")) and name not in ("-", "..")
    return name == path or name.startswith(path.rstrip("/") + "/")


# The files to read with their names, each once and in the names' order: the same input gives
# the same answer, whatever the order of the arguments.
def _files(
    paths: Iterable[str], places: Mapping[str, str], warnings: list[str]
) -> Iterator[tuple[Path | None, str]]:
    found: dict[str, Path | None] = {}
    for name in paths:
        if name == "-":
            found["-"] = None
            continue
        path = Path(name)
        try:
            if path.is_dir():
                # A folder that was named must open; one within it may fail.
                entries = sorted(path.iterdir())
                found.update((str(file), file) for file in _walk(entries, warnings))
            else:
                found[name] = path
        except OSError as error:
            raise UnreadableInput(f"{shown(name)}: {error.strerror or error}") from error
    # Of a file's names the one that was given a host counts, else the first.
    seen: set[tuple[int, int]] = set()
    kept: list[str] = []
    for name in sorted(found, key=lambda name: (_host(name, places) is None, name)):
        identity = _identity(found[name])
        if identity is None or identity not in seen:
            kept.append(name)
        if identity is not None:
            seen.add(identity)
    yield from ((found[name], name) for name in sorted(kept))


def _identity(path: Path | None) -> tuple[int, int] | None:
    if path is None:
        return None
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def _walk(entries: Iterable[Path], warnings: list[str]) -> Iterator[Path]:
    for entry in entries:
        try:
            if entry.is_dir() and not entry.is_symlink():
                yield from _walk(sorted(entry.iterdir()), warnings)
            elif entry.is_file():
                yield entry
        except OSError as error:
            warnings.append(f"{shown(str(entry))}: {error.strerror or error}; left out")


def _from_stdin(stdin: BinaryIO | None, limit: int, tell: Tell | None) -> tuple[Cut, None]:
    if stdin is None:
        raise OSError(0, "standard input is closed")
    with _decompressed(
        cast(io.BufferedReader, io.BufferedReader(cast(io.RawIOBase, stdin)))
    ) as stream:
        return cut(stream, limit=limit, progress=tell), None


def _from_file(path: Path, limit: int, tell: Tell | None) -> tuple[Cut, dt.datetime | None]:
    # Opening a pipe waits for its writer, for ever if none comes: so it is opened without.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_ISFIFO(status.st_mode):
            _await_writer(file.fileno())
        elif not stat.S_ISREG(status.st_mode):
            raise OSError(0, "neither a file nor a folder")
        os.set_blocking(file.fileno(), True)
        head = file.peek(8)
        if head.startswith(_BINARY) and not looks_like_dump(head):
            raise _NoLog(0, "a binary file, not a log")
        again = _rewound(file) if stat.S_ISREG(status.st_mode) else None
        with _decompressed(file) as stream:
            return cut(stream, again, limit=limit, progress=tell), epoch(status.st_mtime)


# The open file itself: by its name another may stand there by now.
def _rewound(file: io.BufferedReader) -> Again:
    @contextlib.contextmanager
    def again() -> Iterator[BinaryIO]:
        file.seek(0)
        with _decompressed(file) as stream:
            yield stream

    return again


def _await_writer(pipe: int) -> None:
    ready = select.poll()
    ready.register(pipe, select.POLLIN | select.POLLHUP)
    if not ready.poll(PIPE_PATIENCE_S * 1_000):
        raise OSError(0, f"a pipe into which nobody wrote within {PIPE_PATIENCE_S} s")


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
        yield cast(BinaryIO, _Zstandard(file))
    else:
        yield file


class _Zstandard:
    """The bytes of one frame after another; `zstandard`'s own reader takes a cut one for whole."""

    # So little that what it decompresses to stays below some 64 MB, whoever made it.
    _INPUT = 2_048

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._begun = False
        self._input = b""
        self._output = b""

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes, none at the end; raises `EOFError` within a frame."""
        while not self._output:
            data = self._input or self._file.read(self._INPUT)
            self._input = b""
            if not data:
                if self._begun:
                    raise EOFError
                return b""
            self._begun = True
            self._output = self._frame.decompress(data)
            if self._frame.eof:
                self._input = self._frame.unused_data
                self._frame = zstandard.ZstdDecompressor().decompressobj()
                self._begun = False
        part, self._output = self._output[:size], self._output[size:]
        return part
