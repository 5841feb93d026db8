"""A log file as the diagnosis sees it, whether it came whole from disk or cut from a record."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Iterable

import msgspec
import zstandard


class Excerpt(msgspec.Struct, frozen=True, gc=False):
    """Consecutive bytes of one file.

    ``offset`` is the first byte's place in the file, ``line`` the number of the first line
    (from 1), None where the lines before it were not counted. ``stored`` are its bytes, or, where
    ``like`` is not None, these packed by zstd with ``like`` as its dictionary.
    """

    offset: int
    line: int | None
    stored: bytes
    like: bytes | None = None

    @property
    def data(self) -> bytes:
        """The bytes as the file holds them."""
        if self.like is None:
            return self.stored
        # Two threads may not use one of these at once; the dictionary is what takes time to load.
        return zstandard.ZstdDecompressor(dict_data=_loaded(self.like)).decompress(self.stored)


class Clock(msgspec.Struct, frozen=True, gc=False):
    """What a node knew of its clocks while the evidence was collected.

    ``kernel_offset_s`` is wall clock minus kernel clock, in seconds, within
    ``uncertainty_s``; ``utc_offset_s`` is local time minus UTC.
    """

    kernel_offset_s: float | None = None
    uncertainty_s: float = 1.0
    utc_offset_s: int | None = None


class Document(msgspec.Struct, frozen=True, gc=False):
    """One file of evidence.

    ``name`` is what the reader of the report is shown. ``host`` is the node that the whole
    file speaks of, None where the file is shared by nodes or nothing tells. ``what`` is why
    a collector took it ("kernel", "job-output", "rank-log", "error-json"), None for files
    that a person named. ``complete`` is False when excerpts leave a part of the file out.
    """

    name: str
    excerpts: tuple[Excerpt, ...]
    host: str | None = None
    what: str | None = None
    complete: bool = True
    size: int | None = None
    modified_at: dt.datetime | None = None
    clock: Clock | None = None
    boot_id: str | None = None


# Below this, packing saves less than it costs. More of a dictionary is slow to load.
_WORTH_PACKING = 256
_DICTIONARY_BYTES = 32_768
_LEVEL = 1


def dictionary(documents: Iterable[Document]) -> bytes:
    """What is to be expected in documents like these, for a `Packer`."""
    return b"".join(e.data for each in documents for e in each.excerpts)[:_DICTIONARY_BYTES]


class Packer:
    """Packs documents: the logs of a job's ranks repeat each other, ``like`` are some of them.

    One is for one thread.
    """

    def __init__(self, like: bytes) -> None:
        self._like = like
        known = zstandard.ZstdCompressionDict(like, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        known.precompute_compress(level=_LEVEL)
        self._compressor = zstandard.ZstdCompressor(dict_data=known)

    def packed(self, document: Document) -> Document:
        """The same document in much less memory, and slower to read."""
        excerpts = tuple(self._packed(each) for each in document.excerpts)
        return msgspec.structs.replace(document, excerpts=excerpts)

    def _packed(self, excerpt: Excerpt) -> Excerpt:
        if excerpt.like is not None or len(excerpt.stored) < _WORTH_PACKING:
            return excerpt
        # A copy: what the library gives keeps the room that it took for the worst case.
        stored = bytes(memoryview(self._compressor.compress(excerpt.stored)))
        return Excerpt(excerpt.offset, excerpt.line, stored, self._like)


def unpacked(document: Document) -> Document:
    """The same document as it was before it was packed: what is read often is unpacked once."""
    if all(each.like is None for each in document.excerpts):
        return document
    excerpts = tuple(Excerpt(each.offset, each.line, each.data) for each in document.excerpts)
    return msgspec.structs.replace(document, excerpts=excerpts)


@functools.lru_cache(maxsize=4)
def _loaded(like: bytes) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(like, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
