"""The cause in the job's AdminComment, in Slurm's accounting.

``scontrol update`` refuses a job that has ended ("Job has already finished"); in the accounting
AdminComment is one of the fields that may be modified then (sacctmgr(1), SPECIFICATIONS FOR JOB),
by an administrator. ``sacctmgr -i modify job`` changes the last of the incarnations of a requeued
job, and writes the value in lower case (seen with 22.05). What somebody else has written stays; a
comment of firstfault's own is brought up to date.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from firstfault.deliver.outcome import Failed, Needless, Result, Sent
from firstfault.model import verdict as v
from firstfault.model.jobs import Delivery

OURS = "firstfault: "
LONGEST = 200

_JOB = re.compile(r"[0-9]{1,10}")
# No quote, delimiter or control: sacct -P escapes nothing, and sacctmgr takes quotes off.
_UNFIT = re.compile(r"[^A-Za-z0-9 ._:/@()+-]+")
_UNFINISHED = frozenset({"RUNNING", "SUSPENDED", "COMPLETING", "RESIZING", "STAGE_OUT"})
_REASON = 300


class Output(Protocol):
    """What a command said; ``status`` None: it was killed, and ``stopped`` says why."""

    @property
    def status(self) -> int | None: ...
    @property
    def stdout(self) -> bytes: ...
    @property
    def stderr(self) -> bytes: ...
    @property
    def stopped(self) -> str | None: ...


# Runs an argv, with times in UTC; raises OSError where it cannot be started.
Run = Callable[[Sequence[str]], Output]


class AdminComment:
    """Writes one line into the job's record, where there is none.

    ``sacctmgr`` and ``sacct`` are absolute paths.
    """

    def __init__(self, sacctmgr: Path, sacct: Path, run: Run) -> None:
        self._sacctmgr = str(sacctmgr)
        self._sacct = str(sacct)
        self._run = run

    def send(self, delivery: Delivery) -> Result:
        """Writes once."""
        current = delivery.current
        if not _JOB.fullmatch(current.job):
            return Needless(f"{current.job} is no job number")
        which = ["-M", current.cluster] if current.cluster else []
        asked = [self._sacct, *which, "-n", "-X", "-P", "-j", current.job]
        found = self._said([*asked, "-o", "JobIDRaw,State,Start,AdminComment"])
        if isinstance(found, Failed):
            return found
        rows = [line.split("|", 3) for line in found.splitlines()]
        mine = [row for row in rows if len(row) == 4 and row[0] == current.job]
        if not mine:
            return Failed(f"Slurm's accounting does not know job {current.job} yet", alone=True)
        _, state, start, comment = mine[-1]
        if _is_later(start, current.verdict.initiator.latest or current.created_at):
            return Needless(f"job {current.job} runs again: its newest record is of another end")
        if state in _UNFINISHED:
            return Failed(f"job {current.job} is still {state} in the accounting", alone=True)
        if comment and not comment.startswith(OURS):
            return Needless("the job has another AdminComment, which stays")
        wanted = line(current.verdict)
        if comment.lower() == wanted.lower():
            return Sent()
        where = [f"cluster={current.cluster}"] if current.cluster else []
        change = ["modify", "job", "where", f"jobid={current.job}", *where]
        done = self._said([self._sacctmgr, "-i", *change, "set", f"admincomment={wanted}"])
        return done if isinstance(done, Failed) else Sent()

    def _said(self, argv: Sequence[str]) -> str | Failed:
        name = Path(argv[0]).name
        try:
            output = self._run(argv)
        except OSError as error:
            return Failed(f"{argv[0]} cannot be run: {error.strerror}")
        if output.status == 0:
            return output.stdout.decode("utf-8", "replace")
        said = " ".join(output.stderr.decode("utf-8", "replace").split())[:_REASON]
        reason = f"{name}: {output.stopped or said or f'ended with {output.status}'}"
        if "privilege" in said or "denied" in said:
            remedy = "sacctmgr modify user USER set adminlevel=Administrator"
            return Failed(f"{reason}. The daemon's user must be an administrator: {remedy}")
        return Failed(reason)


def _is_later(start: str, at: dt.datetime) -> bool:
    """True for an incarnation that began after ``at``, or has not begun; ``start`` is in UTC."""
    try:
        return dt.datetime.fromisoformat(start).replace(tzinfo=dt.UTC) > at
    except ValueError:
        return True


def line(verdict: v.Verdict) -> str:
    """The comment: one line of plain characters, which no format of sacct's is broken by."""
    first = verdict.initiator
    parts = [f"{verdict.cause.id} ({verdict.cause.confidence})"]
    parts += [f"rank {first.rank}"] if first.rank is not None else []
    parts += [f"on {first.host}"] if first.host is not None else []
    return (OURS + _UNFIT.sub("_", " ".join(parts)))[:LONGEST]
