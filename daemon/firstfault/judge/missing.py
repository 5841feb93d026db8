"""Which evidence was not there, why it matters, and how to have it next time."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.faults.hang import ENDED
from firstfault.judge import keeping
from firstfault.judge.decide import Judgement, kernel_read
from firstfault.judge.hang_words import missing_stacks
from firstfault.judge.ranks import ranges
from firstfault.model.fault import Fault
from firstfault.model.run import Run, Told
from firstfault.model.verdict import CONFIRMED, POSSIBLE, UNKNOWN, Missing
from firstfault.readers import nodelist

_CRASHES = frozenset(
    {"process.segfault", "process.abort", "process.bus-error", "process.fatal-signal"}
)
# More absent nodes than this are told together.
_MOST_NODES = 4
# Of more ranks than this, those that are left out are not listed.
_MOST_RANKS = 100_000


def missing(told: Told, run: Run | None, judgement: Judgement) -> tuple[Missing, ...]:
    """What would have made the verdict surer, most telling first."""
    if judgement.cause == "none":
        return ()
    return (
        *_absent(told),
        *_kernel(told, run, judgement),
        *_sender(judgement),
        *_logs(told, run, judgement),
        *_words(judgement),
        *_peers(told, run, judgement),
        *_joined(run, judgement),
        *_stopped(told, run, judgement),
    )


def _absent(told: Told) -> Iterator[Missing]:
    if len(told.absent) > _MOST_NODES:
        yield Missing(
            f"everything from {nodelist.fold(told.absent)} ({len(told.absent)} nodes)",
            "no record came from these nodes: what failed there is not known",
            "Check that they are up and that their collectors run (firstfault-epilog --check).",
        )
        return
    for host in told.absent:
        yield Missing(
            f"everything from {host}",
            "no record came from this node: what failed there is not known",
            f"Check that {host} is up and that its collector runs (firstfault-epilog --check on it).",
        )


# A kernel log tells why a process died of a signal, or vanished; not why it raised or exited.
def _kernel(told: Told, run: Run | None, judgement: Judgement) -> Iterator[Missing]:
    if judgement.cause not in ("unknown", "process.killed") or judgement.confidence == CONFIRMED:
        return
    unknown = judgement.cause == "unknown"
    if unknown and judgement.roots and all(_spoke_or_exited(fault) for fault in judgement.roots):
        return
    hosts = {fault.host for fault in judgement.roots if fault.host}
    hosts = hosts or set(told.nodes or told.hosts) - set(told.absent)
    states = {host: kernel_read(told, host) for host in hosts}
    unread = sorted(host for host, state in states.items() if state != "full")
    if hosts and not unread:
        return
    where = nodelist.fold(unread) if unread else "the failed rank's host"
    partly = all(states[host] == "partial" for host in unread) and bool(unread)
    yield Missing(
        f"the whole kernel log of {where}" if partly else f"kernel log of {where}",
        "it tells an OOM kill from a kill by a person or a program",
        _kernel_log(run, where),
    )


def _kernel_log(run: Run | None, where: str) -> str:
    if run is not None and keeping.launcher(run) == "kubernetes":
        return (
            f"kubectl describe pod {where} (Last State says OOMKilled), and journalctl -k on the "
            "node that it ran on."
        )
    return (
        f"journalctl -k on {where}, or dmesg -T, for all of the job's time; firstfault's Epilog "
        "collects it."
    )


def _spoke_or_exited(fault: Fault) -> bool:
    code = dict(fault.facts).get("exit_code", "")
    return fault.exception is not None or (code.isdigit() and int(code) > 0)


def _sender(judgement: Judgement) -> Iterator[Missing]:
    if judgement.cause != "process.killed":
        return
    yield Missing(
        "the sender of the SIGKILL",
        "a process that is killed says nothing, and the kernel does not log who sent the signal",
        "On the host: journalctl -u systemd-oomd -u earlyoom (programs that kill when memory runs "
        "low), and ausearch -k sigkill after auditctl -a always,exit -F arch=b64 -S kill -F a1=9 "
        "-k sigkill.",
    )


def _logs(told: Told, run: Run | None, judgement: Judgement) -> Iterator[Missing]:
    if judgement.cause != "collective.peer-lost" and judgement.confidence not in (
        UNKNOWN,
        POSSIBLE,
    ):
        return
    if told.outputs == 0:
        yield Missing(
            "the job's output",
            "it holds the ranks' and the agents' own words",
            "The file of sbatch --output (slurm-JOBID.out by default), or what the launcher printed.",
        )
    elif run is not None and not any(process.run for process in run.roster):
        yield Missing(
            "per-rank logs",
            "they hold each rank's last words, also of ranks whose output was lost or mixed",
            keeping.kept(keeping.launcher(run), keeping.pods(run)),
        )
    yield from _account(told, run)


def _account(told: Told, run: Run | None) -> Iterator[Missing]:
    if told.facts is not None or (run is not None and keeping.launcher(run) == "kubernetes"):
        return
    job = next(iter(told.jobs)) if len(told.jobs) == 1 else "JOBID"
    under = "" if keeping.is_slurms(told, run) else "If the job ran under Slurm: "
    yield Missing(
        "Slurm's account of the job",
        "it tells a failure from a cancellation, a time limit and a lost node",
        f"{under}sacct -P -j {job} --format=JobID,JobIDRaw,State,ExitCode,DerivedExitCode,NodeList,"
        "Start,End,Timelimit,Reason",
    )


# What the ranks themselves would have to say.
def _words(judgement: Judgement) -> Iterator[Missing]:
    if judgement.cause in ("process.exit", "unknown") and any(
        _is_silent_exit(fault) for fault in judgement.roots
    ):
        yield Missing(
            "the rank's own reason",
            "it ended with an exit code of its own and said nothing",
            "Let the program log why before it exits; @record on its main function keeps an "
            "uncaught exception in error.json.",
        )
    elif judgement.cause in _CRASHES and not any(_is_explained(f) for f in judgement.roots):
        yield Missing(
            "what the process was doing when it crashed",
            "a signal alone names neither a library nor a line of the program",
            "export PYTHONFAULTHANDLER=1 before the start (the Python frames are then in the rank's "
            "output); the kernel log of the host names the library, coredumpctl has the stack.",
        )
    elif judgement.cause == "process.stuck" and "where" not in dict(judgement.roots[0].facts):
        yield Missing(
            "the stacks of the rank that was stuck",
            "its watchdog says that it was stuck, not in which call",
            "py-spy dump --native --pid PID on its host while it hangs.",
        )
    elif judgement.cause in ENDED and judgement.roots:
        asked = missing_stacks(judgement.roots[0])
        if asked is not None:
            yield asked
    elif judgement.cause == "collective.timeout":
        yield Missing(
            "the stacks of the ranks that did not arrive",
            "ranks waited in vain for others, and nothing tells what the others did",
            "py-spy dump --pid PID on each rank while it hangs; with NCCL, the flight recorder: "
            "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 (newer torch: TORCH_FR_BUFFER_SIZE) and "
            "TORCH_NCCL_DUMP_ON_TIMEOUT=1.",
        )


# Only consequences are in the evidence: somebody else's log has the cause.
def _peers(told: Told, run: Run | None, judgement: Judgement) -> Iterator[Missing]:
    if judgement.cause != "collective.peer-lost" or run is None:
        return
    lost = {e.process for e in judgement.effects if e.process}
    ranks = {process.rank for process in lost if process.rank is not None}
    heard = {p.host for p in (*run.roster, *lost) if p.lines is not None or p in lost}
    unread = sorted(set(told.nodes or told.hosts) - heard - set(told.absent))
    where = f"the ranks on {nodelist.fold(unread)}" if unread else "the rank that was lost"
    if not unread and (left := _left_out(run, ranks)):
        where = f"rank {left}" if left.isdigit() else f"ranks {left}"
    but = f": these ranks only lost it: {ranges(sorted(ranks))}" if ranks else ""
    yield Missing(
        f"the output and the end of {where}",
        f"every word in this evidence follows from a peer's death{but}",
        _elsewhere(run),
    )


# The ranks of which nothing is known, where it is known how many there were.
def _left_out(run: Run, ranks: set[int]) -> str | None:
    count = run.expected_ranks or 0
    seen = ranks | {process.rank for process in run.roster if process.rank is not None}
    return ranges(sorted(set(range(count)) - seen)) if count <= _MOST_RANKS else None


def _elsewhere(run: Run) -> str:
    name = keeping.launcher(run)
    if name == "kubernetes":
        return (
            "kubectl logs --previous POD and kubectl describe pod POD of the other pods; the kernel "
            "log of the node whose pod was lost (journalctl -k)."
        )
    if name in ("srun", "lightning", "spawn", "mpirun", "mpiexec"):
        return (
            "What each of the other ranks said last and how it ended, kept apart by the launcher; and "
            "the kernel log of the host whose rank was lost (journalctl -k)."
        )
    return (
        "The other nodes' logs of this job, their agents' failure tables, and the kernel log of "
        "the host whose rank was lost (journalctl -k)."
    )


def _stopped(told: Told, run: Run | None, judgement: Judgement) -> Iterator[Missing]:
    if judgement.cause != "process.interrupted":
        return
    watchers = "the shell history and the programs that watch over jobs on that host"
    if run is not None and keeping.launcher(run) == "kubernetes":
        how = "kubectl describe pod POD and kubectl get events: evictions, deletions, node drains."
    elif keeping.is_slurms(told, run):
        how = f"sacct (CANCELLED by UID) tells whether Slurm did; else {watchers}."
    else:
        how = f"{watchers[0].upper()}{watchers[1:]}; under a batch system, its accounting."
    yield Missing("who sent the signal", "a program that is told to stop is not told by whom", how)


# Who did come says nothing of who did not.
def _joined(run: Run | None, judgement: Judgement) -> Iterator[Missing]:
    if judgement.cause != "rendezvous.timeout":
        return
    pods = run is not None and keeping.launcher(run) == "kubernetes"
    yield Missing(
        "the launchers' output of the nodes that did not join",
        "the nodes that came only say that they waited; why the others did not come, these say",
        "kubectl get pods and kubectl logs of each pod of the job."
        if pods
        else "Each node's own launcher output (srun --label tells them apart): did it start, and "
        "which host and port did it try?",
    )


def _is_explained(fault: Fault) -> bool:
    return bool({"frame", "library", "worker"} & set(dict(fault.facts)))


def _is_silent_exit(fault: Fault) -> bool:
    return fault.exception is None and _spoke_or_exited(fault)
