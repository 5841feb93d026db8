"""What mutations are made of: cases, and how their documents are edited."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import msgspec

from firstfault.model.case import Case
from firstfault.model.document import Document, Excerpt
from firstfault.readers.kind import Kind, kind
from firstfault.streams.lines import run_folder


class Mutant(msgspec.Struct, frozen=True):
    """A damaged case. ``names`` maps the hosts' old names to new ones; ``done`` says what was done."""

    case: Case
    names: tuple[tuple[str, str], ...] = ()
    done: tuple[str, ...] = ()


class Ground(msgspec.Struct, frozen=True):
    """What is known of the undamaged case: its hosts, their tasks, ranks and run folders.

    ``right`` are the ranks that the case is about; ``speakers`` each rank's task and local rank.
    """

    hosts: tuple[str, ...]
    tasks: dict[str, tuple[int, ...]]
    folders: dict[str, tuple[str, ...]]
    ranks: dict[int, str]
    right: tuple[int, ...] = ()
    speakers: dict[int, tuple[int, int]] = {}


Mutation = Callable[[random.Random, Case, Ground], Case]


def edited(document: Document, change: Callable[[bytes], bytes]) -> Document:
    excerpts = tuple(
        Excerpt(each.offset, each.line, changed)
        for each in document.excerpts
        if (changed := change(each.data))
    )
    size = sum(len(each.data) for each in excerpts)
    return msgspec.structs.replace(document, excerpts=excerpts, size=size)


def with_documents(case: Case, documents: Iterable[Document]) -> Case:
    return msgspec.structs.replace(case, documents=tuple(documents))


def each_edited(
    case: Case, chosen: Callable[[Document], bool], change: Callable[[bytes], bytes]
) -> Case:
    return with_documents(case, (edited(d, change) if chosen(d) else d for d in case.documents))


def is_console(document: Document) -> bool:
    """Whether the document is the job's shared output."""
    return run_folder(document.name) is None and kind(document) is Kind.OUTPUT


def is_kernel(document: Document) -> bool:
    return kind(document) is Kind.KERNEL


def is_accounting(document: Document) -> bool:
    return kind(document) in (Kind.SACCT_TEXT, Kind.SACCT_JSON)
