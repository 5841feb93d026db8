"""What the record of one job would hold: the collector's own work, told and not written."""

import os
import time
from typing import Dict, Iterator, List, NamedTuple, Optional, TextIO

from firstfault_epilog import collection, ends, entries, kernel, pending, record
from firstfault_epilog import settings as node_settings
from firstfault_epilog.entries import Entry
from firstfault_epilog.job import job_of
from firstfault_epilog.record import Coverage, File

PROC = "/proc"
ENVIRON_MAX = 4 << 20
_FATES = {
    ends.COLLECT: "collected at once",
    ends.ASK: "collected if the daemon wants it",
    ends.LET_GO: "let go without a word",
}


class Found(NamedTuple):
    """One end of a job (``entry``), and where it was found."""

    entry: Entry
    where: str


def run(config: str, job: str, out: TextIO) -> int:
    """Prints what this node would send for ``job``; 0, or 1 where the job is not known here."""
    settings, _ = node_settings.read(config)
    found = list(waiting(settings.queue, job))
    kept = pending_ends(settings.spool, job)
    running = _running(job)
    if not found and not kept and running is not None:
        found = [running]
    for told in kept:
        print(told, file=out)
    if not found and not kept:
        print(
            f"job {shown(job)}: the queue {settings.queue} holds no end of it, and no process of it "
            "that this user may see runs here; what was collected lies in the spool",
            file=out,
        )
        return 1
    for end in found:
        clock = kernel.calibrate(settings.kernel_log, settings.kernel_offset_s, time.time())
        moment = collection.look(end.entry, settings, clock)
        evidence = collection.collect(end.entry, settings, moment)
        size = len(record.encode(evidence))
        print(f"job {evidence.job} on {shown(evidence.node)}, from {shown(end.where)}", file=out)
        fate = ends.fate(end.entry, moment, settings)
        print(f"  {_FATES[fate.what]}: {shown(fate.why)}", file=out)
        for file in evidence.files:
            print(f"  {_told(file)}", file=out)
        for row in evidence.coverage:
            if row.state != "full":
                print(f"  {_missing(row)}", file=out)
        for note in evidence.notes:
            print(f"  note: {shown(note)}", file=out)
        print(f"  a record of {size} bytes before compression; nothing was written", file=out)
    return 0


def waiting(queue: str, job: str) -> Iterator[Found]:
    """The ends of ``job`` that wait in the queue, the quarantine's too."""
    for folder in entries.FOLDERS:
        place = os.path.join(queue, folder)
        try:
            names = sorted(os.listdir(place))
        except OSError:
            continue
        for name in names:
            bare = name.partition(".")[2] if folder in ("claimed", "quarantine") else name
            if not bare.startswith(f"{job}-") or name.endswith(".reason"):
                continue
            path = os.path.join(place, name)
            try:
                yield Found(entries.read(path), path)
            except (entries.EntryError, OSError):
                continue


def pending_ends(spool: str, job: str) -> List[str]:
    """A sentence for each end of ``job`` that waits for the daemon's word."""
    told = []
    try:
        for place in pending.waiting(spool):
            if place.job == job:
                end = pending.read(place.path)
                told.append(
                    f"job {job} on {shown(job_of(end.entry).node)}, from {place.path}: it looks "
                    f"like success; the daemon is asked at {record.instant(place.ask_at_s)} "
                    "whether it wants it"
                )
    except (pending.PendingError, OSError) as error:
        told.append(f"{pending.folder(spool)}: {error}")
    return told


# A job that still runs, as if it ended now: from the environment of one of its processes. The
# owner is the process's own, whatever its environment says.
def _running(job: str) -> Optional[Found]:
    best: Optional[Found] = None
    for pid in sorted((int(n) for n in os.listdir(PROC) if n.isdigit()), reverse=True):
        try:
            with open(f"{PROC}/{pid}/environ", "rb") as file:
                environment = _variables(file.read(ENVIRON_MAX))
            owner = os.stat(f"{PROC}/{pid}")
        except OSError:
            continue
        if environment.get(b"SLURM_JOB_ID") != os.fsencode(job) or pid == os.getpid():
            continue
        facts = {key: environment[key] for key in environment if key.startswith(b"SLURM")}
        facts[b"SLURM_JOB_UID"] = str(owner.st_uid).encode("ascii")
        facts[b"SLURM_JOB_GID"] = str(owner.st_gid).encode("ascii")
        facts.setdefault(b"SLURM_JOB_WORK_DIR", environment.get(b"SLURM_SUBMIT_DIR", b""))
        facts.setdefault(b"SLURMD_NODENAME", os.fsencode(os.uname().nodename.partition(".")[0]))
        # What it will end with is not known: zero is what leaves most open.
        facts.update(dict.fromkeys((b"SLURM_JOB_EXIT_CODE", b"SLURM_JOB_DERIVED_EC"), b"0"))
        best = Found(
            Entry(facts, time.time(), "preview"), f"its process {pid}, as if it ended well now"
        )
        # The batch script's own output is the job's.
        if b"SLURM_STEP_ID" not in facts:
            output = _output(pid)
            if output is not None:
                facts[b"SLURM_JOB_STDOUT"] = output
                return best
    return best


def _variables(data: bytes) -> Dict[bytes, bytes]:
    pairs = (field.partition(b"=") for field in data.split(b"\0"))
    return {key: value for key, equals, value in pairs if equals}


def _output(pid: int) -> Optional[bytes]:
    try:
        target = os.readlink(f"{PROC}/{pid}/fd/1")
    except OSError:
        return None
    if not target.startswith("/") or target.startswith("/dev/"):
        return None
    # Only its name is taken; it is opened with the owner's rights. A "%" in it is no pattern.
    return os.fsencode(target.replace("%", "%%"))


def _told(file: File) -> str:
    kept = sum(len(excerpt.data) for excerpt in file.excerpts)
    whole = "whole" if file.complete else f"{kept} of {file.size} bytes"
    return f"{file.what:<11} {shown(file.name)}: {whole}"


def _missing(row: Coverage) -> str:
    words: List[str] = [f"{row.what:<11}"]
    if row.path is not None:
        words.append(f"{shown(row.path)}:")
    words.append(row.state)
    return " ".join(words) + f" ({row.reason}: {shown(row.detail or '')})"


def shown(text: str) -> str:
    """``text`` for a terminal: what a user named cannot move its cursor."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)[:1000]
