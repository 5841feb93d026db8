"""Recorded evidence, damaged as evidence is damaged in life: what a verdict must survive.

A mutation takes a case and a seeded source of chance, and gives another case of the same truth:
less evidence, other names, wrong clocks, strangers' lines. It may take away every proof; it
never adds one.
"""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Callable, Iterable

import msgspec

from firstfault.model.case import Case
from firstfault.model.document import Clock, Document, Excerpt
from firstfault.readers.kind import Kind, kind
from firstfault.streams.lines import run_folder

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
FOREIGN_KILL = (
    "4,70001,%(at)d,-;python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n"
    "6,70002,%(at)d,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
    "oom_memcg=/slurm/uid_4711/job_777,task_memcg=/slurm/uid_4711/job_777/step_0/task_0,"
    "task=python3,pid=%(pid)d,uid=4711\n"
    "3,70003,%(at)d,-;Memory cgroup out of memory: Killed process %(pid)d (python3) "
    "total-vm:2465072kB, anon-rss:1719048kB, file-rss:83912kB, shmem-rss:0kB, UID:4711 "
    "pgtables:3856kB oom_score_adj:0\n"
)


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


def _edited(document: Document, change: Callable[[bytes], bytes]) -> Document:
    excerpts = tuple(
        Excerpt(each.offset, each.line, changed)
        for each in document.excerpts
        if (changed := change(each.data))
    )
    size = sum(len(each.data) for each in excerpts)
    return msgspec.structs.replace(document, excerpts=excerpts, size=size)


def _with(case: Case, documents: Iterable[Document]) -> Case:
    return msgspec.structs.replace(case, documents=tuple(documents))


def _each(case: Case, chosen: Callable[[Document], bool], change: Callable[[bytes], bytes]) -> Case:
    return _with(case, (_edited(d, change) if chosen(d) else d for d in case.documents))


def is_console(document: Document) -> bool:
    """Whether the document is the job's shared output."""
    return run_folder(document.name) is None and kind(document) is Kind.OUTPUT


def _is_kernel(document: Document) -> bool:
    return kind(document) is Kind.KERNEL


def _is_accounting(document: Document) -> bool:
    return kind(document) in (Kind.SACCT_TEXT, Kind.SACCT_JSON)


def remove_a_file(chance: random.Random, case: Case, ground: Ground) -> Case:
    """One file was not collected."""
    gone = chance.choice(case.documents)
    return _with(case, (d for d in case.documents if d is not gone))


def remove_files(chance: random.Random, case: Case, ground: Ground) -> Case:
    """Each file is there by a toss of a coin."""
    return _with(case, (d for d in case.documents if chance.random() < 0.5))


def drop_accounting(chance: random.Random, case: Case, ground: Ground) -> Case:
    """Slurm has not answered."""
    found = _with(case, (d for d in case.documents if not _is_accounting(d)))
    return msgspec.structs.replace(found, facts=None)


def drop_rank_files(chance: random.Random, case: Case, ground: Ground) -> Case:
    """torchrun wrote no per-rank files."""
    return _with(case, (d for d in case.documents if run_folder(d.name) is None))


def drop_kernel(chance: random.Random, case: Case, ground: Ground) -> Case:
    """No kernel log was read."""
    return _with(case, (d for d in case.documents if not _is_kernel(d)))


def drop_consoles(chance: random.Random, case: Case, ground: Ground) -> Case:
    """The job's shared output is lost."""
    return _with(case, (d for d in case.documents if not is_console(d)))


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

    documents = (_edited(d, without) for d in case.documents if kept(d))
    return msgspec.structs.replace(
        _with(case, documents),
        coverage=tuple(node for node in case.coverage if node.node != host),
        nodes_reported=tuple(n for n in case.nodes_reported if n != host),
        nodes_absent=case.nodes_absent + ((host,) if host in case.nodes_reported else ()),
    )


def strip_labels(chance: random.Random, case: Case, ground: Ground) -> Case:
    """srun ran without --label."""
    return _each(case, is_console, lambda data: _LABEL.sub(b"", data))


def strip_tee(chance: random.Random, case: Case, ground: Ground) -> Case:
    """torchrun ran without --tee's prefixes."""
    return _each(case, is_console, lambda data: _TEE.sub(rb"\1", data))


def strip_ranks(chance: random.Random, case: Case, ground: Ground) -> Case:
    """torch is too old for its rank prefix."""
    return _each(case, lambda d: kind(d) is Kind.OUTPUT, lambda data: _RANK.sub(b"", data))


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

    return _each(case, is_console, mixed)


def cut_tail(chance: random.Random, case: Case, ground: Ground) -> Case:
    """A console ends in the middle of a line, or of a table."""
    part = chance.random()
    return _each(case, is_console, lambda data: data[: int(len(data) * part)])


def cut_head(chance: random.Random, case: Case, ground: Ground) -> Case:
    """A console begins in the middle of a line, or of a table."""
    part = chance.random()
    return _each(case, is_console, lambda data: data[int(len(data) * part) :])


def cut_middle(chance: random.Random, case: Case, ground: Ground) -> Case:
    """A piece of a console's middle was left out."""
    low, high = sorted((chance.random(), chance.random()))

    def cut(data: bytes) -> bytes:
        return data[: int(len(data) * low)] + data[int(len(data) * high) :]

    return _each(case, is_console, cut)


def lose_lines(chance: random.Random, case: Case, ground: Ground) -> Case:
    """Single lines of all outputs were lost."""
    share = chance.choice((0.02, 0.1, 0.4))

    def thinned(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join(line for line in lines if chance.random() > share)

    return _each(case, lambda d: kind(d) in (Kind.OUTPUT, Kind.KERNEL), thinned)


def drop_tables(chance: random.Random, case: Case, ground: Ground) -> Case:
    """No agent lived to print its table."""

    def without(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join(line for line in lines if not _TABLE_LINE.search(line))

    return _each(case, is_console, without)


def drop_agent_lines(chance: random.Random, case: Case, ground: Ground) -> Case:
    """The agents' log level hides their words."""

    def without(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join(line for line in lines if not _GLOG.search(line))

    return _each(case, is_console, without)


def drop_sruns_lines(chance: random.Random, case: Case, ground: Ground) -> Case:
    """srun's own standard error went elsewhere."""

    def without(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join(line for line in lines if not line.startswith(b"srun:"))

    return _each(case, is_console, without)


def repeat_console(chance: random.Random, case: Case, ground: Ground) -> Case:
    """A console was copied: the same lines under another name."""
    copies = [
        msgspec.structs.replace(d, name=f"{d.name}.copy") for d in case.documents if is_console(d)
    ]
    return _with(case, (*case.documents, *copies))


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
            document = _edited(document, stamped)
        elif is_console(document) and labels:
            document = _edited(document, console)
        if document.host == host and document.clock is not None:
            document = msgspec.structs.replace(document, clock=_later(document.clock, hours))
        documents.append(document)
    return _with(case, documents)


def _later(clock: Clock, hours: int) -> Clock:
    if clock.kernel_offset_s is None:
        return clock
    return msgspec.structs.replace(clock, kernel_offset_s=clock.kernel_offset_s + 3600 * hours)


def lose_clocks(chance: random.Random, case: Case, ground: Ground) -> Case:
    """No node knows its clocks."""
    return _with(case, (msgspec.structs.replace(d, clock=None) for d in case.documents))


def foreign_kernel(chance: random.Random, case: Case, ground: Ground) -> Case:
    """Another job was hit by the OOM killer, under a pid that this job had on another host."""
    pids = [
        int(each)
        for document in case.documents
        if is_console(document)
        for excerpt in document.excerpts
        for each in re.findall(rb"\(pid: (\d+)\)", excerpt.data)
    ]
    pid = chance.choice(pids) if pids and chance.random() < 0.7 else 4242
    text = FOREIGN_KILL % {"at": 10**9 + chance.randrange(10**9), "pid": pid}
    host = chance.choice(["elsewhere9", None, *ground.hosts])
    document = Document("other/kmsg.txt", (Excerpt(0, 1, text.encode()),), host=host, what="kernel")
    return _with(case, (*case.documents, document))


def foreign_console(chance: random.Random, case: Case, ground: Ground) -> Case:
    """The output of another job lies beside the evidence of one that accounting or a node names."""
    if not any(_is_accounting(d) or kind(d) is Kind.EPILOG for d in case.documents):
        return case
    lines = [
        "0: [default0]:[rank0]: Traceback (most recent call last):",
        '0: [default0]:[rank0]:   File "/home/bob/other.py", line 3, in <module>',
        "0: [default0]:[rank0]: LookupError: no such split",
        "0: E1130 15:00:00.000000 99 torch/distributed/elastic/multiprocessing/api.py:1002] failed "
        "(exitcode: 1) local_rank: 0 (pid: 4711) of binary: /opt/venv/bin/python3",
        f"srun: error: {chance.choice(ground.hosts or ('n1',))}: task 0: Exited with exit code 1",
        "srun: launch/slurm: _step_signal: Terminating StepId=777.0",
    ]
    text = "".join(f"{line}\n" for line in lines).encode()
    return _with(case, (*case.documents, Document("other/slurm-777.out", (Excerpt(0, 1, text),))))


_COLLATERAL = (
    "EOFError",
    "BrokenPipeError: [Errno 32] Broken pipe",
    "ConnectionResetError: [Errno 104] Connection reset by peer",
    "torch.distributed.DistNetworkError: Broken pipe",
    "torch.distributed.DistBackendError: NCCL communicator was aborted on rank 1.",
    "RuntimeError: Timeout waiting for key: default_pg/0/1 after 1800000 ms",
)


def collateral(chance: random.Random, case: Case, ground: Ground) -> Case:
    """A rank of a failed job dies of what another's end did to it, in words that are not known."""
    ranks = sorted(set(ground.speakers) - set(ground.right))
    if not ranks or not ground.right:
        return case
    rank = chance.choice(ranks)
    task, local = ground.speakers[rank]
    lead = f"{task}: [default{local}]:[rank{rank}]: "
    lines = [
        "Traceback (most recent call last):",
        '  File "/home/alice/train/train.py", line 77, in drain',
        chance.choice(_COLLATERAL),
    ]
    text = "".join(f"{lead}{line}\n" for line in lines).encode()
    return _each(case, is_console, lambda data: data + text)


def replace_pids(chance: random.Random, case: Case, ground: Ground) -> Case:
    """Every node counts its pids from a low number (pid namespaces): they are the same on all."""
    numbers: dict[bytes, bytes] = {}

    def low(match: re.Match[bytes]) -> bytes:
        return numbers.setdefault(match[0], b"%d" % (100 + len(numbers) % 4))

    def console(data: bytes) -> bytes:
        return re.sub(rb"(?<=pid: )\d+|(?<=process )\d+(?= closing)|(?<=PID )\d+", low, data)

    return _each(case, is_console, console)


def renumber_job(chance: random.Random, case: Case, ground: Ground) -> Case:
    """The console and the accounting tell of a job with another number than the kernel log."""
    number = b"%d" % chance.randrange(10**5, 10**6)
    old = {
        each
        for document in case.documents
        for excerpt in document.excerpts
        for each in re.findall(rb"SLURM_JOB_ID=(\d+)|StepId=(\d+)", excerpt.data)
        for each in each
        if each
    }

    def renumbered(data: bytes) -> bytes:
        for each in old:
            data = re.sub(rb"(?<![\d:.])%s(?=[.|_ /\n])" % each, number, data)
        return data

    return _each(case, lambda d: True, renumbered)


def shuffle_documents(chance: random.Random, case: Case, ground: Ground) -> Case:
    """The files come in another order."""
    documents = list(case.documents)
    chance.shuffle(documents)
    return _with(case, documents)


def age(chance: random.Random, case: Case, ground: Ground) -> Case:
    """The files were copied: their times say nothing."""
    at = dt.datetime(2027, 2, 1, tzinfo=dt.UTC)
    return _with(case, (msgspec.structs.replace(d, modified_at=at) for d in case.documents))


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
)


def rename_hosts(chance: random.Random, mutant: Mutant, ground: Ground) -> Mutant:
    """The nodes have other names (which may be the old names of others)."""
    fresh = [f"gpu{number:03d}" for number in chance.sample(range(100), len(ground.hosts))]
    if chance.random() < 0.3:
        fresh = list(ground.hosts)
        chance.shuffle(fresh)
    names = dict(zip(ground.hosts, fresh, strict=True))
    if not names:
        return mutant
    old = re.compile(
        rb"(?<![\w.])(slurm_|slurmstepd-)?(%s)(?![\w.-])" % b"|".join(map(str.encode, names))
    )

    def renamed(data: bytes) -> bytes:
        def new(match: re.Match[bytes]) -> bytes:
            return (match[1] or b"") + names[match[2].decode()].encode()

        data = re.sub(rb"n\[[\d,-]+\]", ",".join(fresh).encode(), data)
        return old.sub(new, data)

    def moved(document: Document) -> Document:
        found = _edited(document, renamed)
        name = old.sub(
            lambda m: (m[1] or b"") + names[m[2].decode()].encode(), found.name.encode()
        ).decode()
        return msgspec.structs.replace(found, name=name, host=names.get(found.host or ""))

    case = msgspec.structs.replace(
        _with(mutant.case, (moved(d) for d in mutant.case.documents)),
        coverage=tuple(
            msgspec.structs.replace(node, node=names.get(node.node, node.node))
            for node in mutant.case.coverage
        ),
        nodes_reported=tuple(names.get(n, n) for n in mutant.case.nodes_reported),
        nodes_absent=tuple(names.get(n, n) for n in mutant.case.nodes_absent),
    )
    return Mutant(case, tuple(names.items()), (*mutant.done, "rename_hosts"))


def _honest(case: Case, whole: Case) -> Case:
    """``case`` with a coverage that admits what is missing of the kernel logs."""

    def kernel(each: Case) -> list[bytes]:
        return [e.data for d in each.documents if _is_kernel(d) for e in d.excerpts]

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
