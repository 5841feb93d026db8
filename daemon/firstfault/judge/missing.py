"""Which evidence was not there, why it matters, and how to have it next time."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.judge.decide import Judgement, kernel_read
from firstfault.model.run import Run, Told
from firstfault.model.verdict import CONFIRMED, Missing


def missing(told: Told, run: Run | None, judgement: Judgement) -> tuple[Missing, ...]:
    """What would have made the verdict surer, most telling first."""
    if judgement.cause == "none":
        return ()
    found = [*_absent(told), *_kernel(told, judgement), *_logs(told, run, judgement)]
    return tuple(found)


def _absent(told: Told) -> Iterator[Missing]:
    for host in told.absent:
        yield Missing(
            f"everything from {host}",
            "no record came from this node: what failed there is not known",
            f"Check that {host} is up and that its collector runs (firstfault-epilog --check on it).",
        )


def _kernel(told: Told, judgement: Judgement) -> Iterator[Missing]:
    wanted = judgement.cause in ("unknown", "process.killed")
    if not wanted or judgement.confidence == CONFIRMED:
        return
    hosts: list[str | None] = [fault.host for fault in judgement.roots if fault.host]
    hosts = hosts or [None]
    for host in dict.fromkeys(hosts):
        if kernel_read(told, host) != "none":
            continue
        where = host or "the failed rank's host"
        yield Missing(
            f"kernel log of {where}",
            "it tells an OOM kill from a kill by a person or a program",
            f"journalctl -k on {where}, or dmesg -T, around the time of the end; "
            "firstfault's Epilog collects it.",
        )


def _logs(told: Told, run: Run | None, judgement: Judgement) -> Iterator[Missing]:
    if judgement.cause != "unknown":
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
            "torchrun --log-dir DIR --redirects 3 --tee 3 (or PET_LOG_DIR and PET_TEE=3), and "
            "@record on the program's main function.",
        )
    if told.facts is None:
        yield Missing(
            "Slurm's account of the job",
            "it tells a failure from a cancellation, a time limit and a lost node",
            "sacct -P -j JOBID --format=JobID,JobIDRaw,State,ExitCode,DerivedExitCode,NodeList,"
            "Start,End,Timelimit,Reason",
        )
