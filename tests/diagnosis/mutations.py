"""Recorded evidence, damaged as evidence is damaged in life: what a verdict must survive.

A mutation takes a case and a seeded source of chance, and gives another case of the same truth:
less evidence, other names, wrong clocks, strangers' lines. It may take away every proof; it
never adds one.
"""

from __future__ import annotations

import datetime as dt
import random
import re

import msgspec

from firstfault.model.case import Case
from firstfault.model.document import Clock, Document
from firstfault.readers.kind import Kind, kind
from firstfault.streams.lines import run_folder
from tests.diagnosis.damage import (
    Ground,
    Mutant,
    Mutation,
    each_edited,
    edited,
    is_accounting,
    is_console,
    is_kernel,
    with_documents,
)
from tests.diagnosis.handling import HANDLING
from tests.diagnosis.strangers import (
    collateral,
    foreign_console,
    foreign_kernel,
    rename_hosts,
    renumber_job,
    replace_pids,
)

_LABEL = re.compile(rb"^ {0,4}(\d{1,5}): ", re.MULTILINE)
_TEE = re.compile(rb"^((?: {0,4}\d{1,5}: )?)\[default\d+\]:", re.MULTILINE)
_RANK = re.compile(rb"\[rank\d+\]: ?")
_GLOG = re.compile(rb"\b([EWI]1[0-2][0-3]\d) (\d\d)(:\d\d:\d\d\.\d{6})")
_LOCAL = re.compile(rb"\b(2026-1[0-2]-[0-3]\d[T_])(\d\d)(:\d\d:\d\d)")
_EPOCH = re.compile(rb'("timestamp": ")(\d{10})(")')
_TABLE_LINE = re.compile(
    rb"={20,}|-{20,}|Failures:|Root Cause|\[\d+\]:\s*$|\s*(?:time|host|rank|exitcode|error_file|traceback) *: "
    rb"|ChildFailedError"
)


# Another job's kernel log: its victim's pid is what a test chooses.
def remove_a_file(chance: random.Random, case: Case, ground: Ground) -> Case:
    """One file was not collected."""
    gone = chance.choice(case.documents)
    return with_documents(case, (d for d in case.documents if d is not gone))


def remove_files(chance: random.Random, case: Case, ground: Ground) -> Case:
    """Each file is there by a toss of a coin."""
    return with_documents(case, (d for d in case.documents if chance.random() < 0.5))


def drop_accounting(chance: random.Random, case: Case, ground: Ground) -> Case:
    """Slurm has not answered."""
    found = with_documents(case, (d for d in case.documents if not is_accounting(d)))
    return msgspec.structs.replace(found, facts=None)


def drop_rank_files(chance: random.Random, case: Case, ground: Ground) -> Case:
    """torchrun wrote no per-rank files."""
    return with_documents(case, (d for d in case.documents if run_folder(d.name) is None))


def drop_kernel(chance: random.Random, case: Case, ground: Ground) -> Case:
    """No kernel log was read."""
    return with_documents(case, (d for d in case.documents if not is_kernel(d)))


def drop_consoles(chance: random.Random, case: Case, ground: Ground) -> Case:
    """The job's shared output is lost."""
    return with_documents(case, (d for d in case.documents if not is_console(d)))


def keep_consoles(chance: random.Random, case: Case, ground: Ground) -> Case:
    """A person has the console alone."""
    return Case(tuple(d for d in case.documents if is_console(d)))


def remove_a_node(chance: random.Random, case: Case, ground: Ground) -> Case:
    """Nothing came from one node: no kernel log, no rank files, no labelled line."""
    if not ground.hosts:
        return case
    host = chance.choice(ground.hosts)
    folders, tasks = ground.folders.get(host, ()), ground.tasks.get(host, ())

    def kept(document: Document) -> bool:
        folder = run_folder(document.name)
        if folder is not None and folder.run in folders:
            return False
        return document.host != host and f"epilog.{host}." not in document.name

    labels = tuple(b"%d: " % task for task in tasks)
    node = f"slurm_{host}/".encode()

    def without(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join(
            each for each in lines if not each.lstrip().startswith(labels) and node not in each
        )

    documents = (edited(d, without) for d in case.documents if kept(d))
    return msgspec.structs.replace(
        with_documents(case, documents),
        coverage=tuple(node for node in case.coverage if node.node != host),
        nodes_reported=tuple(n for n in case.nodes_reported if n != host),
        nodes_absent=case.nodes_absent + ((host,) if host in case.nodes_reported else ()),
    )


def strip_labels(chance: random.Random, case: Case, ground: Ground) -> Case:
    """srun ran without --label."""
    return each_edited(case, is_console, lambda data: _LABEL.sub(b"", data))


def strip_tee(chance: random.Random, case: Case, ground: Ground) -> Case:
    """torchrun ran without --tee's prefixes."""
    return each_edited(case, is_console, lambda data: _TEE.sub(rb"\1", data))


def strip_ranks(chance: random.Random, case: Case, ground: Ground) -> Case:
    """torch is too old for its rank prefix."""
    return each_edited(case, lambda d: kind(d) is Kind.OUTPUT, lambda data: _RANK.sub(b"", data))


def interleave(chance: random.Random, case: Case, ground: Ground) -> Case:
    """A console's streams were mixed in another order, each stream's own order kept."""

    def mixed(data: bytes) -> bytes:
        streams: dict[bytes, list[bytes]] = {}
        for line in data.splitlines(keepends=True):
            label = _LABEL.match(line)
            streams.setdefault(label[1] if label else b"", []).append(line)
        order = [key for key, lines in streams.items() for _ in lines]
        chance.shuffle(order)
        heads = {key: iter(lines) for key, lines in streams.items()}
        return b"".join(next(heads[key]) for key in order)

    return each_edited(case, is_console, mixed)


def cut_tail(chance: random.Random, case: Case, ground: Ground) -> Case:
    """A console ends in the middle of a line, or of a table."""
    part = chance.random()
    return each_edited(case, is_console, lambda data: data[: int(len(data) * part)])


def cut_head(chance: random.Random, case: Case, ground: Ground) -> Case:
    """A console begins in the middle of a line, or of a table."""
    part = chance.random()
    return each_edited(case, is_console, lambda data: data[int(len(data) * part) :])


def cut_middle(chance: random.Random, case: Case, ground: Ground) -> Case:
    """A piece of a console's middle was left out."""
    low, high = sorted((chance.random(), chance.random()))

    def cut(data: bytes) -> bytes:
        return data[: int(len(data) * low)] + data[int(len(data) * high) :]

    return each_edited(case, is_console, cut)


def lose_lines(chance: random.Random, case: Case, ground: Ground) -> Case:
    """Single lines of all outputs were lost."""
    share = chance.choice((0.02, 0.1, 0.2))

    def thinned(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join(line for line in lines if chance.random() > share)

    return each_edited(case, lambda d: kind(d) in (Kind.OUTPUT, Kind.KERNEL), thinned)


def drop_tables(chance: random.Random, case: Case, ground: Ground) -> Case:
    """No agent lived to print its table."""

    def without(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join(line for line in lines if not _TABLE_LINE.search(line))

    return each_edited(case, is_console, without)


def drop_agent_lines(chance: random.Random, case: Case, ground: Ground) -> Case:
    """The agents' log level hides their words."""

    def without(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join(line for line in lines if not _GLOG.search(line))

    return each_edited(case, is_console, without)


def drop_sruns_lines(chance: random.Random, case: Case, ground: Ground) -> Case:
    """srun's own standard error went elsewhere."""

    def without(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join(line for line in lines if not line.startswith(b"srun:"))

    return each_edited(case, is_console, without)


def repeat_console(chance: random.Random, case: Case, ground: Ground) -> Case:
    """A console was copied: the same lines under another name."""
    copies = [
        msgspec.structs.replace(d, name=f"{d.name}.copy") for d in case.documents if is_console(d)
    ]
    return with_documents(case, (*case.documents, *copies))


def shift_a_clock(chance: random.Random, case: Case, ground: Ground) -> Case:
    """One node's clock is an hour off."""
    if not ground.hosts:
        return case
    host = chance.choice(ground.hosts)
    hours = chance.choice((-1, 1))
    labels = tuple(b"%d: " % task for task in ground.tasks.get(host, ()))
    folders = ground.folders.get(host, ())

    def shift(data: bytes) -> bytes:
        def hour(match: re.Match[bytes]) -> bytes:
            return b"%s%s%02d%s" % (
                match[1],
                b" " if match.re is _GLOG else b"",
                (int(match[2]) + hours) % 24,
                match[3],
            )

        data = _GLOG.sub(hour, data)
        return _LOCAL.sub(hour, data)

    def console(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join(shift(line) if line.lstrip().startswith(labels) else line for line in lines)

    def stamped(data: bytes) -> bytes:
        return _EPOCH.sub(
            lambda m: b"%s%d%s" % (m[1], int(m[2]) + 3600 * hours, m[3]),
            data,
        )

    documents = []
    for document in case.documents:
        folder = run_folder(document.name)
        if folder is not None and folder.run in folders:
            document = edited(document, stamped)
        elif is_console(document) and labels:
            document = edited(document, console)
        if document.host == host and document.clock is not None:
            document = msgspec.structs.replace(document, clock=_later(document.clock, hours))
        documents.append(document)
    return with_documents(case, documents)


def _later(clock: Clock, hours: int) -> Clock:
    if clock.kernel_offset_s is None:
        return clock
    return msgspec.structs.replace(clock, kernel_offset_s=clock.kernel_offset_s + 3600 * hours)


def lose_clocks(chance: random.Random, case: Case, ground: Ground) -> Case:
    """No node knows its clocks."""
    return with_documents(case, (msgspec.structs.replace(d, clock=None) for d in case.documents))


def shuffle_documents(chance: random.Random, case: Case, ground: Ground) -> Case:
    """The files come in another order."""
    documents = list(case.documents)
    chance.shuffle(documents)
    return with_documents(case, documents)


def age(chance: random.Random, case: Case, ground: Ground) -> Case:
    """The files were copied: their times say nothing."""
    at = dt.datetime(2027, 2, 1, tzinfo=dt.UTC)
    return with_documents(
        case, (msgspec.structs.replace(d, modified_at=at) for d in case.documents)
    )


MUTATIONS: tuple[Mutation, ...] = (
    remove_a_file,
    remove_files,
    drop_accounting,
    drop_rank_files,
    drop_kernel,
    drop_consoles,
    keep_consoles,
    remove_a_node,
    strip_labels,
    strip_tee,
    strip_ranks,
    interleave,
    cut_tail,
    cut_head,
    cut_middle,
    lose_lines,
    drop_tables,
    drop_agent_lines,
    drop_sruns_lines,
    repeat_console,
    shift_a_clock,
    lose_clocks,
    foreign_kernel,
    foreign_console,
    collateral,
    replace_pids,
    renumber_job,
    shuffle_documents,
    age,
    *HANDLING,
)


def _honest(case: Case, whole: Case) -> Case:
    """``case`` with a coverage that admits what is missing of the kernel logs."""

    def kernel(each: Case) -> list[bytes]:
        return [e.data for d in each.documents if is_kernel(d) for e in d.excerpts]

    left = kernel(case)
    if sorted(left) == sorted(kernel(whole)):
        return case
    state = "partial" if left else "none"
    coverage = tuple(
        msgspec.structs.replace(
            node,
            coverage=tuple(
                msgspec.structs.replace(each, state=state) if each.what == "kernel" else each
                for each in node.coverage
            ),
        )
        for node in case.coverage
    )
    return msgspec.structs.replace(case, coverage=coverage)


def mutate(chance: random.Random, case: Case, ground: Ground) -> Mutant:
    """``case``, damaged in one to four ways."""
    chosen = chance.sample(MUTATIONS, chance.choice((1, 1, 2, 2, 3, 4)))
    chosen.sort(key=lambda each: each is foreign_console)
    whole = case
    for each in chosen:
        case = each(chance, case, ground)
        if not case.documents:
            break
    mutant = Mutant(_honest(case, whole), (), tuple(each.__name__ for each in chosen))
    return rename_hosts(chance, mutant, ground) if chance.random() < 0.15 else mutant
