"""What the readers find in the logs: facts with their place, time and speaker, no judgement."""

from __future__ import annotations

import datetime as dt

import msgspec

from firstfault.model.line import Place, Span, Speaker


class Holder(msgspec.Struct, frozen=True, gc=False):
    """What one process held as the OOM killer looked, by its table of tasks."""

    pid: int
    command: str
    resident_kb: int


class HeldTogether(msgspec.Struct, frozen=True, gc=False):
    """How many processes there were, and what they held together."""

    processes: int
    resident_kb: int


class OomKill(msgspec.Struct, frozen=True, gc=False):
    """The kernel's OOM killer chose a process (the lines of one kill, joined).

    ``limited`` is True for a memory cgroup's limit, False for a node out of memory, None when
    the lines do not tell. ``job``, ``step``, ``task`` and ``node`` come from the victim's
    cgroup path; ``task`` is node-local before Slurm 23.11 and global since. ``limit_cgroup`` is
    the cgroup whose limit was full, ``swap`` True where it was the limit on memory and swap.
    ``holders`` are the processes of the victim's user and of root that held most, most first;
    ``own`` is what all of those two held, ``others`` what those of all other users did (who reads
    the victim's report need not know what others ran). ``killer`` is "kernel", or a
    program that kills for the node's sake: "earlyoom", "systemd-oomd" (a cgroup whole: its pid
    is 0). ``boot`` counts the boots in a log of several, from 1, None in a log of one.
    ``quoted`` is True where the line stood among a program's output: it may be the program's.
    ``torn`` is True where the log begins within the kill: whose it was stood in what is lost.
    """

    place: Place
    at: Span | None
    host: str | None
    pid: int
    command: str
    limited: bool | None
    cgroup: str | None = None
    job: str | None = None
    step: str | None = None
    task: int | None = None
    uid: int | None = None
    usage_kb: int | None = None
    limit_kb: int | None = None
    resident_kb: int | None = None
    limit_cgroup: str | None = None
    swap: bool = False
    holders: tuple[Holder, ...] = ()
    own: HeldTogether | None = None
    others: HeldTogether | None = None
    killer: str = "kernel"
    boot: int | None = None
    quoted: bool = False
    torn: bool = False


class Trap(msgspec.Struct, frozen=True, gc=False):
    """The kernel noted a fatal fault of a user process; ``kind`` is "segfault", a trap's name or
    "signal N". ``boot`` and ``quoted`` as in `OomKill`.
    """

    place: Place
    at: Span | None
    host: str | None
    pid: int
    command: str
    kind: str
    library: str | None = None
    boot: int | None = None
    quoted: bool = False


class KernelSign(msgspec.Struct, frozen=True, gc=False):
    """A kernel's line that a signature knows, with what the lines after it add.

    ``pid`` and ``command`` are the process that it names. ``facts`` are the pattern's named
    groups ("server", "device", "seconds", ...), "module" (a file system's in a hung task's
    stack) and "recovered" (the kernel said later that it is well again). ``boot`` and ``quoted``
    as in `OomKill`.
    """

    place: Place
    at: Span | None
    host: str | None
    signature: str
    means: str
    pid: int | None = None
    command: str | None = None
    facts: tuple[tuple[str, str], ...] = ()
    boot: int | None = None
    quoted: bool = False


class Xid(msgspec.Struct, frozen=True, gc=False):
    """NVIDIA's driver reported an error; ``by_kernel`` is False for a line a program wrote."""

    place: Place
    at: Span | None
    host: str | None
    number: int
    device: str
    pid: int | None
    by_kernel: bool


class ExitNoticed(msgspec.Struct, frozen=True, gc=False):
    """An agent said which of its processes failed: the line "failed (exitcode: ...)".

    ``agent_pid`` tells agents apart: the agent's pid, before torch 2.5 its main thread's id.
    """

    place: Place
    speaker: Speaker
    at: Span | None
    exit_code: int
    local_rank: int
    pid: int
    agent_pid: int | None


class TableEntry(msgspec.Struct, frozen=True, gc=False):
    """One failure in a ChildFailedError table. ``place`` is its exit code's line.

    ``root`` is torchelastic's own opinion (first by its poll order). ``host`` is None where
    the table says "localhost". ``error`` is the exception's line, where it prints one;
    ``told_at`` is the line that says why: that one, or the signal's.
    """

    place: Place
    speaker: Speaker
    at: Span | None
    table: int
    root: bool
    host: str | None
    rank: int
    local_rank: int
    exit_code: int
    pid: int
    error_file: str | None = None
    error: str | None = None
    told_at: Place | None = None


class ClosingSignal(msgspec.Struct, frozen=True, gc=False):
    """An agent ends a healthy process; ``forced`` is its SIGKILL after the grace time.

    ``agent_pid`` is as in `ExitNoticed`.
    """

    place: Place
    speaker: Speaker
    at: Span | None
    pid: int
    forced: bool
    agent_pid: int | None = None


class AgentSignalled(msgspec.Struct, frozen=True, gc=False):
    """An agent was itself told to stop."""

    place: Place
    speaker: Speaker
    at: Span | None
    signal: int


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One frame of a Python stack."""

    file: str
    line: int
    function: str


class Traceback(msgspec.Struct, frozen=True, gc=False):
    """A Python traceback. ``place`` is the line with the exception.

    ``causes`` are the exceptions that it names as its direct cause or context, first to last
    (type, message). ``recorded`` is True for torchrun's error.json, ``hooked`` for torch's
    excepthook (prefix ``[rankN]: ``): both tell an uncaught exception. ``final`` is True where
    nothing follows it in its stream; ``followed`` counts its stream's later lines, without those
    of the exception's own message, of a launcher and of an interpreter that shuts down: 0 also
    where it is not ``final``.

    ``more`` are the message's further lines, as far as they are surely its own. ``thread`` is
    True for a thread's death (its process goes on), ``child`` for that of a process that
    multiprocessing started, ``spawned`` the index of the process that torch.multiprocessing.spawn
    says raised it. ``cut`` is True where the traceback that it led to has no end: what ended the
    process is another one. ``mixed`` is True where other tracebacks stood among its lines: its frames are
    those that are surely its own, perhaps none. ``bare`` is True for an exception's line alone,
    without a traceback before it, that a signature knows or that its stream ends with: it may tell of
    one that was caught. ``worked`` is
    True where its stream goes on with several steps of work: it was caught, or what was said before it
    was written after it.
    """

    place: Place
    speaker: Speaker
    at: Span | None
    type: str
    message: str
    frames: tuple[Frame, ...]
    causes: tuple[tuple[str, str], ...] = ()
    recorded: bool = False
    hooked: bool = False
    final: bool = False
    followed: int = 0
    more: tuple[str, ...] = ()
    thread: bool = False
    child: bool = False
    spawned: int | None = None
    mixed: bool = False
    cut: bool = False
    bare: bool = False
    worked: bool = False


class TornTraceback(msgspec.Struct, frozen=True, gc=False):
    """A traceback whose end is missing, the last of its stream; ``place`` is its last line."""

    place: Place
    speaker: Speaker
    frames: tuple[Frame, ...]


class FatalError(msgspec.Struct, frozen=True, gc=False):
    """Python's faulthandler noted a fatal signal.

    ``frames`` is the current thread's stack, innermost last.
    """

    place: Place
    speaker: Speaker
    signal: int
    frames: tuple[Frame, ...] = ()


class TaskEnd(msgspec.Struct, frozen=True, gc=False):
    """srun noted how tasks ended: ``kind`` is "exit", "signal" or "oom".

    ``speaker`` is somebody only where the one task is known to be a rank.
    """

    place: Place
    host: str
    tasks: tuple[int, ...]
    kind: str
    number: int | None = None
    speaker: Speaker = Speaker()


class OomNoticed(msgspec.Struct, frozen=True, gc=False):
    """slurmstepd noted OOM kills in a step."""

    place: Place
    speaker: Speaker
    host: str | None
    job: str | None
    step: str | None


class Cancelled(msgspec.Struct, frozen=True, gc=False):
    """slurmstepd ends a job or a step. ``host`` is the step's first node, not a culprit.

    ``reason`` is "time-limit", "preemption", "node-failure", "requeue", "task-failure",
    "signal", "failed", "unkillable" or None where the line gives none. ``step`` is None for a whole job.
    ``worked`` is True where several steps of work follow it: a program may have printed it.
    """

    place: Place
    at: Span | None
    host: str | None
    job: str
    step: str | None
    reason: str | None
    worked: bool = False


class NodeFailure(msgspec.Struct, frozen=True, gc=False):
    """srun names a node that failed."""

    place: Place
    host: str


class StepEnded(msgspec.Struct, frozen=True, gc=False):
    """srun ends the step, or aborts it: a task ended badly, it was told to, or the job ends."""

    place: Place
    step: str | None


class ShellKill(msgspec.Struct, frozen=True, gc=False):
    """A shell said that its child died of a signal."""

    place: Place
    speaker: Speaker
    pid: int
    signal: int


class TaskStatus(msgspec.Struct, frozen=True, gc=False):
    """srun tells how its tasks stand, while it waits for them in vain or is interrupted.

    ``kind`` is "exited" or "running"; it is "first-exit" for the line that says why it tells: one
    task ended (--wait) and others did not.
    """

    place: Place
    kind: str
    tasks: tuple[int, ...] = ()


class LaunchFailure(msgspec.Struct, frozen=True, gc=False):
    """The job, a step or a task could not be started; ``program`` is what could not be run.

    ``what`` is "command", "not-executable", "interpreter", "execve", "directory", "output", "step",
    "task", "submission", "prolog" or "container". ``fatal`` is False for a word of a shell that
    goes on after it; ``code`` is the exit status that it leaves, where that is known.
    """

    place: Place
    speaker: Speaker
    what: str
    host: str | None = None
    job: str | None = None
    step: str | None = None
    tasks: tuple[int, ...] = ()
    program: str | None = None
    code: int | None = None
    fatal: bool = True


class MemoryPoll(msgspec.Struct, frozen=True, gc=False):
    """Slurm's accounting poll ended a step over its memory limit (OverMemoryKill), in bytes."""

    place: Place
    speaker: Speaker
    host: str | None
    job: str | None
    step: str | None
    used: int | None = None
    limit: int | None = None


class Interrupt(msgspec.Struct, frozen=True, gc=False):
    """srun was interrupted at its terminal (Ctrl-C) and ends the step."""

    place: Place
    step: str | None = None


class SlurmNote(msgspec.Struct, frozen=True, gc=False):
    """A daemon of Slurm noted something of a job or a node (slurmctld.log, slurmd.log).

    ``kind`` is "time-limit", "node-failure", "node-down", "preempted", "cancelled", "requeued",
    "kill-request", "oom", "memory-poll", "signal", "exit", "prolog", "launch" or "boot"; ``node`` is
    whom it speaks of, ``number`` the signal or the exit code, ``by_uid`` who cancelled or sent a
    signal ("kill-request" is either).
    """

    place: Place
    at: Span | None
    kind: str
    node: str | None = None
    job: str | None = None
    step: str | None = None
    number: int | None = None
    by_uid: int | None = None
    reason: str | None = None


class PodEnd(msgspec.Struct, frozen=True, gc=False):
    """Kubernetes says how a container of a pod, or the whole pod, ended or why it cannot start.

    ``reason`` is Kubernetes' word ("OOMKilled", "Error", "Evicted", "ErrImagePull"); ``exit_code``
    is 128 plus the signal for a signal. ``last`` is True for the state before a restart. ``pod`` is
    None for a word on a node.
    """

    place: Place
    at: Span | None
    pod: str | None
    reason: str
    node: str | None = None
    container: str | None = None
    exit_code: int | None = None
    message: str | None = None
    restarts: int | None = None
    last: bool = False


class Sign(msgspec.Struct, frozen=True, gc=False):
    """A line that a signature knows: ``signature`` is its id, ``means`` what it says.

    ``at_most`` is how sure a verdict by such words alone may be. ``worked`` is True where several
    steps of work follow in its stream; of an argument parser's word, where its rank speaks again.
    """

    place: Place
    speaker: Speaker
    signature: str
    means: str
    at_most: str = "confirmed"
    worked: bool = False


class WorkersStarted(msgspec.Struct, frozen=True, gc=False):
    """An agent said which ranks it starts: "Rendezvous complete for workers. Result: ...".

    ``ranks`` are (local rank, global rank). ``restarts`` counts this agent's failed attempts,
    ``agents`` is how many agents take part, ``world_size`` how many ranks; None where not told.
    """

    place: Place
    speaker: Speaker
    at: Span | None
    agent_pid: int | None
    restarts: int
    ranks: tuple[tuple[int, int], ...]
    agents: int | None = None
    world_size: int | None = None


class GroupEnded(msgspec.Struct, frozen=True, gc=False):
    """An agent said that its workers ended: ``how`` is "failed", "changed", "finished", "over".

    "failed": it will start them anew. "changed": it starts them anew because agents came or
    went. "finished": all of them ended with success. "over": they failed for good.
    """

    place: Place
    speaker: Speaker
    at: Span | None
    agent_pid: int | None
    how: str


class LaunchBegan(msgspec.Struct, frozen=True, gc=False):
    """A launcher began: the line that it writes once, before it starts anything."""

    place: Place
    speaker: Speaker
    at: Span | None
    launcher: str


class LauncherEnd(msgspec.Struct, frozen=True, gc=False):
    """Another launcher than torchrun told how one of its processes ended.

    ``exit_code`` is negative for a signal, None where not told; ``rank`` and ``host`` only where
    its words identify them. ``first`` is True where it says that no other ended badly before.
    """

    place: Place
    speaker: Speaker
    launcher: str
    exit_code: int | None
    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None
    first: bool = False
    at: Span | None = None


class WorldSize(msgspec.Struct, frozen=True, gc=False):
    """A program or launcher said how many ranks there are; ``rank`` is the one that said so."""

    place: Place
    speaker: Speaker
    size: int
    rank: int | None = None


class Member(msgspec.Struct, frozen=True, gc=False):
    """NCCL said which rank of a communicator of ``size`` ranks a process is.

    ``rank`` is the global rank only where the communicator is all ranks'; else, and where that
    is not known, ``known`` is False.
    """

    place: Place
    speaker: Speaker
    host: str
    pid: int
    rank: int
    size: int
    known: bool = False


class WorkStatus(msgspec.Struct, frozen=True, gc=False):
    """A rank's NCCL watchdog said how far the rank had come in a process group's collectives.

    ``group`` is the group's name as the line has it, ``rank`` the rank's number in it (as torch
    prints it); ``enqueued`` and ``completed`` count works, -1 for none. ``begun_at`` is when the
    last was enqueued, which only the flight recorder tells.
    """

    place: Place
    speaker: Speaker
    group: str
    rank: int
    enqueued: int
    completed: int
    begun_at: dt.datetime | None = None


class RecordedWork(msgspec.Struct, frozen=True, gc=False):
    """torch's flight recorder kept a collective of a rank, the ``sequence``-th of its group.

    ``name`` is the operation ("nccl:all_reduce"), ``sizes`` those of its inputs.
    """

    place: Place
    speaker: Speaker
    group: str
    sequence: int
    name: str
    sizes: tuple[tuple[int, ...], ...]


class Lagging(msgspec.Struct, frozen=True, gc=False):
    """torch's own report on a desync names the ranks that it takes for the lagging ones."""

    place: Place
    speaker: Speaker
    ranks: tuple[int, ...]


class Stack(msgspec.Struct, frozen=True, gc=False):
    """Where a process stood that goes on: its main thread's stack, innermost frame last.

    ``place`` is the innermost frame's line, ``pid`` the process's own where the dump names it.
    """

    place: Place
    speaker: Speaker
    frames: tuple[Frame, ...]
    pid: int | None = None


class LastWords(msgspec.Struct, frozen=True, gc=False):
    """The last that a speaker said before the job's end; ``place`` is that line.

    ``at`` is the time that it bears, ``pause_s`` the longest pause between the lines before it that
    count steps. ``step`` of ``total`` is how far it had come, at ``steps_per_s``. ``closing`` is True
    where the line speaks of an end, a checkpoint or another long work, ``cut`` where the last of
    its output was not written. ``written_at`` is when its file was last written, ``lines`` how
    many it said, of ``line_bytes`` on average. ``flushed`` is True where lines were surely written as
    they were said. ``signalled`` is True where one of the last lines speaks of a signal that ends
    programs in order.
    """

    place: Place
    speaker: Speaker
    at: dt.datetime | None = None
    lines: int = 0
    pause_s: float | None = None
    step: int | None = None
    total: int | None = None
    steps_per_s: float | None = None
    closing: bool = False
    cut: bool = False
    written_at: dt.datetime | None = None
    line_bytes: float = 0.0
    flushed: bool = False
    signalled: bool = False


class EndFacts(msgspec.Struct, frozen=True, gc=False):
    """What a node's Epilog was told of the job's end (raw wait statuses; zero is ambiguous).

    ``restarts`` counts the job's requeues; it may be one too many, for Slurm may count the next
    before the node hears of the end.
    """

    place: Place
    host: str | None
    job: str | None
    cluster: str | None
    user: str | None
    uid: int | None
    nodes: str | None
    exit_status: int | None
    derived_status: int | None
    restarts: int | None = None


Event = (
    OomKill
    | Trap
    | KernelSign
    | Xid
    | ExitNoticed
    | TableEntry
    | ClosingSignal
    | AgentSignalled
    | Traceback
    | TornTraceback
    | FatalError
    | TaskEnd
    | OomNoticed
    | Cancelled
    | NodeFailure
    | StepEnded
    | ShellKill
    | TaskStatus
    | LaunchFailure
    | MemoryPoll
    | Interrupt
    | SlurmNote
    | PodEnd
    | Sign
    | WorkersStarted
    | GroupEnded
    | LaunchBegan
    | LauncherEnd
    | WorldSize
    | Member
    | WorkStatus
    | RecordedWork
    | Lagging
    | Stack
    | LastWords
    | EndFacts
)
