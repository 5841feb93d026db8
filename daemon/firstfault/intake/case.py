"""From the records of one job to the case that is judged: files that nodes share become one."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Iterable, Sequence

import msgspec

from firstfault.model.case import Case, NodeCoverage
from firstfault.model.document import Clock, Document, Excerpt, Packer, dictionary
from firstfault.model.evidence import Coverage, EvidenceRecord, RecordFile, documents
from firstfault.model.slurm import JobFacts
from firstfault.readers import nodelist


class _Copy(msgspec.Struct, frozen=True):
    """One node's copy of a file."""

    record: EvidenceRecord
    file: RecordFile
    document: Document


# What Slurm calls the output of an array's task where nobody named it.
_TASK_OUTPUT = re.compile(r"(?:.*/)?slurm-([0-9]{1,20})_[0-9]{1,20}\.out", re.DOTALL)
# From so many nodes on, memory counts for more than time.
_MANY = 1000


def case(records: Sequence[EvidenceRecord], facts: JobFacts | None) -> Case:
    """The evidence of ``records``, all of one end of one job, with what Slurm says of it.

    A node's newest record counts. The job's output and rank logs that several nodes saw are one
    document each, and so are the kernel logs of nodes that share a kernel (several slurmd on one
    machine); such a document has no host, for nothing in it as a whole tells whose it is. The
    same records in another order give the same case.
    """
    newest = [_without_other_jobs(record, facts) for record in _newest(records)]
    found: list[Document] = []
    copies: list[_Copy] = []
    packer: Packer | None = None
    for record in newest:
        own = documents(record)
        if packer is None and len(newest) >= _MANY and (like := dictionary(own)):
            packer = Packer(like)
        if packer is not None:
            own = [packer.packed(document) for document in own]
        for file, document in zip(record.files, own, strict=False):
            copies.append(_Copy(record, file, document))
        found += own[len(record.files) :]
    for group in _groups(copies):
        found.append(_merged(group))
    reported = [record.node for record in newest]
    return Case(
        documents=tuple(sorted(found, key=lambda d: (d.what or "", d.name, d.host or ""))),
        facts=facts,
        coverage=tuple(NodeCoverage(record.node, record.coverage) for record in newest),
        nodes_reported=tuple(reported),
        nodes_absent=_absent(newest, facts, reported),
    )


def _newest(records: Sequence[EvidenceRecord]) -> list[EvidenceRecord]:
    by_node: dict[str, EvidenceRecord] = {}
    for record in sorted(records, key=lambda r: (r.ended_at, r.collected_at, r.id)):
        by_node[record.node] = record
    return [by_node[node] for node in _natural(by_node)]


def has_guessed_output(records: Sequence[EvidenceRecord]) -> bool:
    """True where a node took for the job's output what may be another job's.

    A Slurm that does not tell the Epilog where the output went (SLURM_JOB_STDOUT; 22.05) does not
    tell it of which array the job is either. Where the job has no output of its own number, the
    newest file with the name of an array's task is taken.
    """
    return any(_guessed(record) for record in records)


def _guessed(record: EvidenceRecord) -> dict[str, str]:
    """The files that may be another job's output, with the number in their name."""
    if record.environment.get("SLURM_JOB_STDOUT"):
        return {}
    outputs = [file.name for file in record.files if file.what == "job-output"]
    named = {name: _TASK_OUTPUT.fullmatch(name) for name in outputs}
    return {name: of[1] for name, of in named.items() if of is not None and of[1] != record.job}


def _without_other_jobs(record: EvidenceRecord, facts: JobFacts | None) -> EvidenceRecord:
    if facts is None:
        return record
    own = (facts.raw_id, facts.id.partition("_")[0])
    named = (facts.stdout, facts.stderr)
    guessed = _guessed(record).items()
    others = {name for name, number in guessed if number not in own and name not in named}
    if not others:
        return record
    return msgspec.structs.replace(
        record,
        files=tuple(file for file in record.files if file.name not in others),
        coverage=tuple(
            Coverage(row.what, "none", row.path, "not-of-job", "it is another job's output")
            if row.path in others
            else row
            for row in record.coverage
        ),
    )


def _natural(nodes: Iterable[str]) -> list[str]:
    names = set(nodes)
    try:
        ordered = nodelist.expand(",".join(names))
    except nodelist.NodeListError:
        return sorted(names)
    return list(ordered) if set(ordered) == names else sorted(names)


def _absent(
    records: Sequence[EvidenceRecord], facts: JobFacts | None, reported: Sequence[str]
) -> tuple[str, ...]:
    lists = {
        record.environment.get("SLURM_JOB_NODELIST") or record.environment.get("SLURM_NODELIST")
        for record in records
    }
    lists.add(facts.nodes if facts is not None else None)
    expected: set[str] = set()
    for text in lists:
        if text:
            try:
                expected.update(nodelist.expand(text))
            except nodelist.NodeListError:
                continue  # Slurm's "None assigned"; the records' own lists were checked before
    return tuple(_natural(expected - set(reported))) if expected - set(reported) else ()


def _groups(copies: Sequence[_Copy]) -> list[list[_Copy]]:
    """Copies of one file together, in the order of the nodes."""
    groups: dict[tuple[str | None, ...], list[_Copy]] = {}
    for copy in copies:
        groups.setdefault(_identity(copy), []).append(copy)
    result: list[list[_Copy]] = []
    for identity, group in groups.items():
        if identity[0] == "rank" and len({copy.record.node for copy in group}) > 1:
            result += _same_files(group)
        elif identity[0] == "single":
            result += [[copy] for copy in group]
        else:
            result.append(group)
    return result


def _identity(copy: _Copy) -> tuple[str | None, ...]:
    if copy.file.what == "job-output":
        return ("output", copy.file.name)
    if copy.file.what == "kernel" and copy.document.boot_id is not None:
        # A node that was rebooted sends the log of the boot before as well.
        return ("kernel", copy.document.boot_id)
    if copy.file.what in ("rank-log", "error-json"):
        return ("rank", copy.file.what, copy.file.name)
    return ("single", copy.file.what, copy.file.name, copy.record.node)


def _same_files(group: Sequence[_Copy]) -> list[list[_Copy]]:
    """Copies with one path, split into those that are one file."""
    parts: dict[tuple[str, ...], list[_Copy]] = {}
    for copy in group:
        parts.setdefault(_file_identity(copy), []).append(copy)
    return list(parts.values())


def _file_identity(copy: _Copy) -> tuple[str, ...]:
    """Equal for two copies, at one path, of one file.

    On one machine a file is one by device and inode, also where several slurmd run there. Between
    machines the device number of a shared file system differs and the inode number does not.
    Where the collector could not tell the inode, equal contents at an equal path are one.
    """
    machine = copy.record.boot_id or copy.record.node
    inode = copy.file.inode
    if copy.file.shared is False:
        return ("own", machine, inode or copy.record.node)
    if inode is not None:
        return ("inode", inode.rpartition(":")[2])
    return ("content", _digest(copy.document))


def _digest(document: Document) -> str:
    digest = hashlib.sha256()
    for excerpt in document.excerpts:
        digest.update(b"%d:%d:" % (excerpt.offset, len(excerpt.data)))
        digest.update(excerpt.data)
    return digest.hexdigest()


def _merged(group: Sequence[_Copy]) -> Document:
    if len(group) == 1:
        return group[0].document
    if group[0].file.what == "kernel":
        return _merged_kernel(group)
    latest = max(group, key=_age)
    excerpts = _union([copy.document.excerpts for copy in group])
    if excerpts is None:
        # The copies contradict one another: the file was cut or written anew between them.
        excerpts = latest.document.excerpts
    complete = any(
        copy.document.complete and copy.document.size == latest.document.size for copy in group
    )
    return msgspec.structs.replace(
        latest.document,
        name=latest.file.name,
        host=None,
        complete=complete,
        excerpts=excerpts,
        clock=_common_clock(group),
    )


def _age(copy: _Copy) -> tuple[int, dt.datetime, str]:
    return (copy.file.size or 0, copy.record.collected_at, copy.record.node)


def _union(parts: Sequence[tuple[Excerpt, ...]]) -> tuple[Excerpt, ...] | None:
    """All bytes of several copies of one growing file; None where two copies differ."""
    merged: list[Excerpt] = []
    every = sorted(
        (excerpt for part in parts for excerpt in part),
        key=lambda e: (e.offset, -len(e.data), e.line is None, e.data),
    )
    for excerpt in every:
        if merged:
            last = merged[-1]
            end = last.offset + len(last.data)
            if excerpt.offset <= end:
                shared = min(end, excerpt.offset + len(excerpt.data)) - excerpt.offset
                start = excerpt.offset - last.offset
                if last.data[start : start + shared] != excerpt.data[:shared]:
                    return None
                line = last.line if last.line is not None or start else excerpt.line
                merged[-1] = Excerpt(last.offset, line, last.data + excerpt.data[shared:])
                continue
        merged.append(excerpt)
    return tuple(merged)


def _merged_kernel(group: Sequence[_Copy]) -> Document:
    """One kernel's log from several nodes, each record once by its sequence number."""
    first = group[0]
    name = f"{nodelist.fold(copy.record.node for copy in group)}:{first.file.name}"
    read = [(_kernel_records(copy.document), copy) for copy in group]
    every: dict[int, bytes] = {}
    for records, _ in read:
        for sequence, line in records.items():
            every.setdefault(sequence, line)
    whole = next((copy for records, copy in read if records.keys() == every.keys()), None)
    if whole is not None:
        excerpts = whole.document.excerpts  # keeps where the lines stood
    else:
        data = b"".join(line for _, line in sorted(every.items()))
        excerpts = (Excerpt(0, 1, data),) if data else ()
    return msgspec.structs.replace(
        first.document,
        name=name,
        host=None,
        excerpts=excerpts,
        complete=all(copy.document.complete for copy in group),
        clock=_common_clock(group),
    )


def _kernel_records(document: Document) -> dict[int, bytes]:
    """Raw /dev/kmsg records by sequence number; continuation lines stay with their record."""
    records: dict[int, bytes] = {}
    sequence: int | None = None
    for excerpt in document.excerpts:
        for line in excerpt.data.splitlines(keepends=True):
            fields = line.split(b",", 3)
            if not line.startswith(b" ") and len(fields) == 4 and fields[1].isdigit():
                sequence = int(fields[1])
                records[sequence] = line
            elif sequence is not None:
                records[sequence] += line
    return {
        number: line if line.endswith(b"\n") else line + b"\n" for number, line in records.items()
    }


def _common_clock(group: Sequence[_Copy]) -> Clock | None:
    """The best known clock of nodes that share one; differing kernels have none in common."""
    boots = {copy.document.boot_id for copy in group}
    clocks = [copy.document.clock for copy in group if copy.document.clock is not None]
    if len(boots) != 1 or not clocks:
        return None
    return min(clocks, key=lambda clock: (clock.kernel_offset_s is None, clock.uncertainty_s))
