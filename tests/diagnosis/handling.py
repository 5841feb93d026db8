"""Mutations by what happens to logs on their way: shippers, terminals, copies, editors."""

from __future__ import annotations

import random
import re

import msgspec

from firstfault.model.case import Case
from firstfault.model.document import Document, Excerpt
from firstfault.readers.kind import Kind, kind
from firstfault.streams.lines import run_folder
from tests.diagnosis.damage import (
    Ground,
    each_edited,
    edited,
    is_console,
    is_kernel,
    with_documents,
)

_STREAM = re.compile(rb"^((?: {0,4}\d{1,5}: )?(?:\[default\d+\]:)?(?:\[rank\d+\]: ?)?)")
_LABEL = re.compile(rb"^ {0,4}(\d{1,5}): ")


def _is_output(document: Document) -> bool:
    return kind(document) is Kind.OUTPUT


def stamp_lines(chance: random.Random, case: Case, ground: Ground) -> Case:
    """A shipper put its time before each line."""
    second = chance.randrange(3600)

    def stamped(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join(
            b"2026-11-30T%02d:%02d:%02d.%09dZ %s"
            % (12 + at // 3600, at // 60 % 60, at % 60, number * 7919 % 10**9, line)
            for number, line in enumerate(lines)
            for at in (second + number // 40,)
        )

    return each_edited(case, is_console, stamped)


def end_lines_as_windows(chance: random.Random, case: Case, ground: Ground) -> Case:
    """The files went through Windows."""
    return each_edited(case, _is_output, lambda data: data.replace(b"\n", b"\r\n"))


def colour_lines(chance: random.Random, case: Case, ground: Ground) -> Case:
    """A terminal's colours stand around some lines."""

    def coloured(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join(
            b"\x1b[31m%s\x1b[0m\n" % line.rstrip(b"\r\n") if chance.random() < 0.3 else line
            for line in lines
        )

    return each_edited(case, _is_output, coloured)


def repeat_lines(chance: random.Random, case: Case, ground: Ground) -> Case:
    """A shipper that delivers at least once delivered some lines twice."""

    def doubled(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join(line * (2 if chance.random() < 0.1 else 1) for line in lines)

    return each_edited(case, _is_output, doubled)


def repeat_file(chance: random.Random, case: Case, ground: Ground) -> Case:
    """A console was appended to itself."""
    return each_edited(case, is_console, lambda data: data + data)


def mix_streams(chance: random.Random, case: Case, ground: Ground) -> Case:
    """Each rank's lines were mixed anew among the others', their own order kept."""

    def mixed(data: bytes) -> bytes:
        streams: dict[bytes, list[bytes]] = {}
        order: list[bytes] = []
        for line in data.splitlines(keepends=True):
            lead = _STREAM.match(line)
            order.append(lead[1] if lead else b"")
            streams.setdefault(order[-1], []).append(line)
        # Neighbours change places; what was far apart stays so.
        moved = [(place + chance.uniform(0, 3), key) for place, key in enumerate(order)]
        order = [key for _, key in sorted(moved)]
        heads = {key: iter(lines) for key, lines in streams.items()}
        return b"".join(next(heads[key]) for key in order)

    return each_edited(case, is_console, mixed)


def cut_each_file(chance: random.Random, case: Case, ground: Ground) -> Case:
    """Each file lost a piece of its head or of its tail, at any byte."""

    def cut(data: bytes) -> bytes:
        place = chance.randrange(len(data) + 1)
        return data[:place] if chance.random() < 0.6 else data[place:]

    return each_edited(case, lambda d: _is_output(d) or is_kernel(d), cut)


def cut_rank_files(chance: random.Random, case: Case, ground: Ground) -> Case:
    """The ranks' own files end early."""

    def cut(data: bytes) -> bytes:
        return data[: chance.randrange(len(data) + 1)]

    return each_edited(case, lambda d: _is_output(d) and run_folder(d.name) is not None, cut)


def lose_a_stream(chance: random.Random, case: Case, ground: Ground) -> Case:
    """Of the ranks' own files one kind was not collected."""
    gone = chance.choice(("/stdout.log", "/stderr.log", "/error.json"))
    return with_documents(case, (d for d in case.documents if not d.name.endswith(gone)))


def split_console(chance: random.Random, case: Case, ground: Ground) -> Case:
    """Each task wrote into a file of its own, without a label."""
    documents: list[Document] = []
    for document in case.documents:
        parts = _by_task(document) if is_console(document) else {}
        if len(parts) < 2:
            documents.append(document)
            continue
        for task, data in sorted(parts.items()):
            name = f"{document.name}.{task}"
            documents.append(
                msgspec.structs.replace(
                    document, name=name, excerpts=(Excerpt(0, 1, data),), size=len(data)
                )
            )
    return with_documents(case, documents)


def _by_task(document: Document) -> dict[str, bytes]:
    parts: dict[str, bytes] = {}
    for excerpt in document.excerpts:
        for line in excerpt.data.splitlines(keepends=True):
            label = _LABEL.match(line)
            key = label[1].decode() if label else "srun"
            parts[key] = parts.get(key, b"") + (line[label.end() :] if label else line)
    return parts


def join_consoles(chance: random.Random, case: Case, ground: Ground) -> Case:
    """All consoles were pasted into one file."""
    consoles = [d for d in case.documents if is_console(d)]
    if len(consoles) < 2:
        return case
    chance.shuffle(consoles)
    data = b"".join(
        each.data if each.data.endswith(b"\n") else each.data + b"\n"
        for d in consoles
        for each in d.excerpts
    )
    one = Document("pasted.txt", (Excerpt(0, 1, data),), size=len(data))
    return with_documents(case, (*(d for d in case.documents if d not in consoles), one))


def lose_indents(chance: random.Random, case: Case, ground: Ground) -> Case:
    """A web form took the blanks away from the beginnings of lines."""

    def stripped(data: bytes) -> bytes:
        return b"".join(line.lstrip(b" \t") for line in data.splitlines(keepends=True))

    return each_edited(case, is_console, stripped)


def keep_errors(chance: random.Random, case: Case, ground: Ground) -> Case:
    """A person kept what ``grep -i error`` finds, with a few lines around it."""
    around = chance.choice((0, 2, 5))

    def kept(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        hits = [at for at, line in enumerate(lines) if re.search(rb"(?i)error|fail|kill", line)]
        chosen = {at + each for at in hits for each in range(-around, around + 1)}
        return b"".join(line for at, line in enumerate(lines) if at in chosen)

    return each_edited(case, is_console, kept)


def copy_from_a_node(chance: random.Random, case: Case, ground: Ground) -> Case:
    """Of the consoles of all nodes, one node's was copied under two names."""
    consoles = [d for d in case.documents if _is_output(d)]
    if not consoles:
        return case
    one = chance.choice(consoles)
    copy = edited(one, lambda data: data)
    return with_documents(
        case, (*case.documents, msgspec.structs.replace(copy, name=f"saved/{one.name}"))
    )


HANDLING = (
    stamp_lines,
    end_lines_as_windows,
    colour_lines,
    repeat_lines,
    repeat_file,
    mix_streams,
    cut_each_file,
    cut_rank_files,
    lose_a_stream,
    split_console,
    join_consoles,
    lose_indents,
    keep_errors,
    copy_from_a_node,
)
