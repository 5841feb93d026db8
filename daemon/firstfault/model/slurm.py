"""What Slurm's accounting says of a job, whoever was asked (sacct's text, pyslurm, a file)."""

from __future__ import annotations

import datetime as dt

import msgspec

from firstfault.model.line import Place


class ExitCode(msgspec.Struct, frozen=True):
    """``code`` and ``signal`` as Slurm prints them, ``code:signal``.

    sacct's text and pyslurm print 137 as 9 (they subtract 128 from codes of 128 and more), so
    a code of 1 to 127 may stand for itself plus 128.
    """

    code: int
    signal: int


class StepFacts(msgspec.Struct, frozen=True):
    """One step: ``id`` is "0", "batch", "extern", "interactive".

    ``by_uid`` is split off from "CANCELLED by 1001": srun cancels its own step too, as its user.
    ``stdout`` and ``stderr`` are paths or patterns, as in `JobFacts`.
    """

    id: str
    name: str | None = None
    state: str | None = None
    exit_code: ExitCode | None = None
    nodes: str | None = None
    started_at: dt.datetime | None = None
    ended_at: dt.datetime | None = None
    by_uid: int | None = None
    stdout: str | None = None
    stderr: str | None = None


class JobFacts(msgspec.Struct, frozen=True):
    """One incarnation of a job.

    ``state`` is the base state ("FAILED", "CANCELLED"), with ``by_uid`` split off from
    "CANCELLED by 1001". ``nodes`` is Slurm's node list ("n[1-4]"). Times are aware. ``restarts``
    counts the requeues before this incarnation. ``failed_node`` is the node that a NODE_FAIL is about.
    ``stdout`` and ``stderr`` are where the output went, as far as Slurm knows (sacct from 24.05 on,
    of a step from 25.05 on; before, a step's is what its command line says): absolute paths when
    they come from the accounting itself, with %t, %n and %N left in where each task or node has a
    file of its own. ``gpus`` were allocated, 0: none were, None: nobody told; where Slurm was asked
    about a heterogeneous job, in all of its components. ``said_at`` is the line that states all
    this, where a file does.
    """

    id: str
    raw_id: str | None = None
    cluster: str | None = None
    name: str | None = None
    user: str | None = None
    uid: int | None = None
    account: str | None = None
    partition: str | None = None
    state: str | None = None
    by_uid: int | None = None
    reason: str | None = None
    exit_code: ExitCode | None = None
    derived_exit_code: ExitCode | None = None
    nodes: str | None = None
    submitted_at: dt.datetime | None = None
    started_at: dt.datetime | None = None
    ended_at: dt.datetime | None = None
    time_limit_s: int | None = None
    work_dir: str | None = None
    restarts: int | None = None
    failed_node: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    gpus: int | None = None
    steps: tuple[StepFacts, ...] = ()
    said_at: Place | None = None
