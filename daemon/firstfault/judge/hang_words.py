"""What a job did before Slurm ended it, in words: that it hung, or that it was still at work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from firstfault.judge.phrases import duration
from firstfault.model.fault import Fault
from firstfault.model.verdict import POSSIBLE, Alternative, Missing

_LONGEST = 120
_TOLD_BY = {
    "lines": "the times in its output",
    "files": "the times when the ranks' files were last written",
}


def ended(fault: Fault, end: str, until: str) -> str:
    """The title of a job that Slurm ended: ``end`` stands after "The job", ``until`` after a hang."""
    facts = dict(fault.facts)
    if "hung" in facts:
        return f"The job hung{_at_step(facts)}: it said nothing for {_quiet(facts)} {until}"
    return f"The job {end}{f'{_at_step(facts)}, still advancing' if 'advancing' in facts else ''}"


def _at_step(facts: dict[str, str]) -> str:
    if "step" not in facts:
        return ""
    total = facts.get("total")
    return f" at step {int(facts['step']):,}{f' of {int(total):,}' if total else ''}"


def _quiet(facts: dict[str, str]) -> str:
    return duration(int(facts["quiet_s"]))


def notes(roots: Sequence[Fault]) -> Iterable[str]:
    """What the last words tell, and what that rests on."""
    facts = dict(roots[0].facts) if roots else {}
    if "stood" in facts:
        yield (
            f"When it was interrupted, {_others(facts)} waited in a collective, and {facts['stood']} "
            "did not: if the job had hung, that is what the others waited for."
        )
    if "quiet_s" not in facts:
        return
    rests = _TOLD_BY[facts["told_by"]]
    if "hung" in facts:
        yield (
            f"By {rests}, the last word of {_voices(facts)} is of {facts['since']}, {_quiet(facts)} "
            f"before the end; the pauses before that were of {facts['pause_s']} s at most."
        )
        if roots[0].cause == "slurm.time-limit":
            yield "More time would not have helped: a job that hangs goes on hanging."
    elif "silent_after" in facts:
        yield (
            f"By {rests}, nothing was said for {_quiet(facts)} before the end, after "
            f"“{facts['silent_after'][:_LONGEST].strip()}”: the job hung, was at something that it does "
            "without a word, or its output was held back in a buffer (PYTHONUNBUFFERED=1 helps)."
        )
    elif "advancing" in facts:
        yield f"By {rests}, the job advanced to its end: it did not hang."
        if "more_s" in facts:
            yield _needed(facts)
    if "standing" in facts:
        yield f"By their stacks, all ranks stood in {facts['standing']}: none waited for another."
    if "behind" in facts:
        yield (
            f"By its last words, {facts['behind']} had done one step less than the others: it may be "
            "the one that they waited for."
        )


# What the steps that were left would have taken, and how much faster they had to be.
def _needed(facts: dict[str, str]) -> str:
    more_s, left = int(facts["more_s"]), int(facts["total"]) - int(facts["step"])
    said = (
        f"At the pace of its last steps, the {left:,} that were left would have taken "
        f"{duration(more_s)} more"
    )
    limit_s = int(facts.get("limit_s", "0"))
    if not limit_s:
        return f"{said}."
    factor = (limit_s + more_s) / limit_s
    return f"{said}: it needed a limit of {duration(limit_s + more_s)}, or {factor:,.1f} times the pace."


def _others(facts: dict[str, str]) -> str:
    count = int(facts["stood_waiting"])
    return f"{count:,} ranks" if count > 1 else "one rank"


def _voices(facts: dict[str, str]) -> str:
    count = int(facts["voices"])
    return f"all {count:,} that spoke" if count > 1 else "the job"


def alternatives(roots: Sequence[Fault]) -> Iterable[Alternative]:
    """Why a job hung that was ended: what is not known is a possibility."""
    if roots and "stood" in dict(roots[0].facts):
        yield Alternative(
            "process.stuck",
            POSSIBLE,
            "only where each rank stood as it was interrupted tells: a job at work has such moments",
        )
        return
    if (
        roots
        and roots[0].cause.startswith(("slurm.", "process.interrupted"))
        and "hung" in dict(roots[0].facts)
    ):
        behind = dict(roots[0].facts).get("behind")
        tells = (
            f"only the last step of {behind}, one before the others', tells"
            if behind
            else "nothing tells"
        )
        yield Alternative(
            "process.stuck",
            POSSIBLE,
            f"the job hung, but {tells} which rank was stuck, and nothing in what",
        )


def missing_stacks(fault: Fault) -> Missing | None:
    """What is to be asked for where a job hung or may have hung; None where it did not."""
    facts = dict(fault.facts)
    if "advancing" in facts:
        return None
    if "hung" in facts or "silent_after" in facts:
        return Missing(
            "the stacks of all ranks while nothing was said",
            "they show which rank did not arrive where the others waited, and what it was doing",
            "In the program: faulthandler.register(signal.SIGUSR1); with sbatch --signal=USR1@120 "
            "Slurm then asks for all stacks 120 s before the limit. While a job hangs: py-spy dump "
            "--pid PID on each rank; with NCCL, TORCH_NCCL_TRACE_BUFFER_SIZE=2000 (newer torch: "
            "TORCH_FR_BUFFER_SIZE) and TORCH_NCCL_DUMP_ON_TIMEOUT=1.",
        )
    if fault.cause != "slurm.time-limit":
        return None
    return Missing(
        "whether the job still made progress at its limit",
        "a job that hung before needs no more time: its hang needs mending",
        "Compare the time of the last step in the output, or of the last checkpoint (ls -l), "
        "with the job's end; let the program print the time with each step, and flush it "
        "(PYTHONUNBUFFERED=1).",
    )
