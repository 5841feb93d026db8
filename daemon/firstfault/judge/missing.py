"""Which evidence was not there, why it matters, and how to have it next time."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.judge.decide import Judgement, kernel_read
from firstfault.judge.ranks import ranges
from firstfault.model.event import ClosingSignal, ExitNoticed, TableEntry, TaskEnd
from firstfault.model.fault import Fault
from firstfault.model.run import Run, Told
from firstfault.model.verdict import CONFIRMED, POSSIBLE, UNKNOWN, Missing
from firstfault.readers import nodelist


def missing(told: Told, run: Run | None, judgement: Judgement) -> tuple[Missing, ...]:
    """What would have made the verdict surer, most telling first."""
    if judgement.cause == "none":
        return ()
    return (
        *_absent(told),
        *_kernel(told, judgement),
        *_sender(judgement),
        *_logs(told, run, judgement),
        *_words(judgement),
        *_peers(told, run, judgement),
        *_stopped(judgement),
    )


def _absent(told: Told) -> Iterator[Missing]:
    for host in told.absent:
        yield Missing(
            f"everything from {host}",
            "no record came from this node: what failed there is not known",
            f"Check that {host} is up and that its collector runs (firstfault-epilog --check on it).",
        )


# A kernel log tells why a process died of a signal, or vanished; not why it raised or exited.
def _kernel(told: Told, judgement: Judgement) -> Iterator[Missing]:
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
        f"journalctl -k on {where}, or dmesg -T, for all of the job's time; firstfault's Epilog "
        "collects it.",
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
            "The file of sbatch --output (slurm-JOBID.out by default).",
        )
    elif run is not None and not any(process.run for process in run.roster):
        yield Missing(
            "per-rank logs",
            "they hold each rank's last words, also of ranks whose output was lost or mixed",
            _rank_logs(run),
        )
    if told.facts is None:
        yield Missing(
            "Slurm's account of the job",
            "it tells a failure from a cancellation, a time limit and a lost node",
            "sacct -P -j JOBID --format=JobID,JobIDRaw,State,ExitCode,DerivedExitCode,NodeList,"
            "Start,End,Timelimit,Reason",
        )


# How each launcher keeps the ranks' output apart.
def _rank_logs(run: Run) -> str:
    events = [each.event for each in run.happened]
    if any(isinstance(e, TaskEnd) for e in events) and not any(
        isinstance(e, ExitNoticed | TableEntry | ClosingSignal) for e in events
    ):
        return "srun --output=DIR/%j-%t.log (a file for each task), or srun --label."
    return (
        "torchrun --log-dir DIR --redirects 3 --tee 3 (or PET_LOG_DIR and PET_TEE=3), and "
        "@record on the program's main function."
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
    elif judgement.cause == "collective.timeout":
        yield Missing(
            "the stacks of the ranks that did not arrive",
            "ranks waited in vain for others, and nothing tells what the others did",
            "py-spy dump --pid PID on each rank while it hangs; with NCCL, "
            "TORCH_FR_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1 (the flight recorder).",
        )


# Only consequences are in the evidence: somebody else's log has the cause.
def _peers(told: Told, run: Run | None, judgement: Judgement) -> Iterator[Missing]:
    if judgement.cause != "collective.peer-lost" or run is None:
        return
    heard = {process.host for process in run.roster if process.lines is not None}
    unread = sorted(set(told.nodes or told.hosts) - heard - set(told.absent))
    lost = {e.process.rank for e in judgement.effects if e.process and e.process.rank is not None}
    where = f"the ranks on {nodelist.fold(unread)}" if unread else "the rank that was lost"
    but = f": these ranks only lost it: {ranges(sorted(lost))}" if lost else ""
    yield Missing(
        f"the output and the end of {where}",
        f"every word in this evidence follows from a peer's death{but}",
        "The other nodes' logs of this job, their agents' failure tables, and the kernel log of "
        "the host whose rank was lost (journalctl -k).",
    )


def _stopped(judgement: Judgement) -> Iterator[Missing]:
    if judgement.cause != "process.interrupted":
        return
    yield Missing(
        "who sent the signal",
        "a program that is told to stop is not told by whom",
        "sacct (CANCELLED by UID) tells whether Slurm did; else the shell history and the "
        "programs that watch over jobs on that host.",
    )


def _is_silent_exit(fault: Fault) -> bool:
    return fault.exception is None and _spoke_or_exited(fault)
