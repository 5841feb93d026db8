"""One attempt of a job: who took part, what happened."""

from __future__ import annotations

import datetime as dt

import msgspec

from firstfault.model.event import Event, Sign
from firstfault.model.slurm import JobFacts
from firstfault.model.verdict import CONFIRMED


class Process(msgspec.Struct, frozen=True, gc=False):
    """One rank's process in one attempt, as far as the evidence names it.

    ``lines`` is how many lines of its own streams were read, None where no stream of it was:
    silence counts as evidence only for a process that was heard. ``guessed`` is True where the
    rank is only taken for Slurm's task id.
    """

    attempt: int
    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    task: int | None = None
    run: str | None = None
    pids: tuple[int, ...] = ()
    lines: int | None = None
    guessed: bool = False

    @property
    def pid(self) -> int | None:
        """The process id, None where none or several are known."""
        return self.pids[0] if len(self.pids) == 1 else None


class Happened(msgspec.Struct, frozen=True, gc=False):
    """An event and whose it is: a process of the roster, or None.

    ``last`` is True where its line is its document's last one; ``cut`` where, besides, that
    line has no end, or where a traceback is not there: more may have stood there.
    """

    event: Event
    process: Process | None
    source: str
    last: bool = False
    cut: bool = False

    @property
    def means(self) -> str | None:
        """What a signature says of the line, None for an event that is no `Sign`."""
        return self.event.means if isinstance(self.event, Sign) else None

    @property
    def at_most(self) -> str:
        """How sure a verdict by the line's words may be: "confirmed" for an event that is no `Sign`."""
        return self.event.at_most if isinstance(self.event, Sign) else CONFIRMED


class Run(msgspec.Struct, frozen=True):
    """One attempt of one launch. ``happened`` are its events and those that are of no attempt.

    ``attempt`` is torchrun's restart count in its ``launch`` (0 is the first of the job's
    output), ``requeue`` how often Slurm had begun the job anew. ``progressed`` is True when its
    ranks are seen at their work. ``step`` is the Slurm step, ``expected_ranks`` how many ranks
    there should be by the agents' or the program's words, ``expected_agents`` how many agents,
    ``finished_agents`` how many of them said that all their ranks ended with success.
    """

    attempt: int
    roster: tuple[Process, ...]
    happened: tuple[Happened, ...]
    progressed: bool
    launch: int = 0
    requeue: int = 0
    step: str | None = None
    expected_ranks: int | None = None
    expected_agents: int | None = None
    finished_agents: int = 0


class KernelLog(msgspec.Struct, frozen=True):
    """How much of a host's kernel log was read: "full", "partial" or "none".

    ``host`` is None for a log of which nothing tells whose it is. A partial one may be whole
    ``since`` a moment.
    """

    host: str | None
    state: str
    since: dt.datetime | None = None


class Told(msgspec.Struct, frozen=True):
    """Everything that the evidence tells, before anybody judges it.

    ``kernel`` are the kernel logs that were read, or could not be. ``hosts`` are all
    hosts that the evidence names. ``zoned`` is False when a local time of an event stood in it
    without a zone. ``mixed`` is True where the
    files may be of several jobs. ``no_folder`` is the path of the job's output where a node found
    that its folder is not there. ``worked`` are the documents in which several steps of work follow an
    end, with where the last of them begin, and the last that bear no rank's prefix (-1: none).
    """

    runs: tuple[Run, ...]
    facts: JobFacts | None
    jobs: frozenset[str]
    cluster: str | None
    user: str | None
    uid: int | None
    nodes: tuple[str, ...]
    hosts: frozenset[str]
    absent: tuple[str, ...]
    kernel: tuple[KernelLog, ...]
    outputs: int
    exit_status: int | None
    derived_status: int | None
    zoned: bool
    notes: tuple[str, ...] = ()
    mixed: bool = False
    no_folder: str | None = None
    worked: tuple[tuple[str, int, int], ...] = ()
