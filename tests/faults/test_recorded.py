"""What a real Slurm wrote when jobs failed in one known way each; tests/faults/recorded/README.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstfault.diagnosis import diagnose
from firstfault.model import verdict as v
from firstfault.model.case import Case
from tests.readers.logs import document

RECORDED = Path(__file__).parent / "recorded"


def judged(*names: str) -> v.Verdict:
    hosts = {"slurmd-n2.log": "n2", "slurmd-n3.log": "n3"}
    return diagnose(
        Case(
            tuple(
                document((RECORDED / name).read_bytes(), name, host=hosts.get(name))
                for name in names
            )
        )
    )


@pytest.mark.parametrize(
    ("names", "cause", "confidence", "host"),
    [
        (["execve.out"], "slurm.launch", v.CONFIRMED, None),
        (["badinterp.out"], "slurm.launch", v.CONFIRMED, "n3"),
        (["noexec.out"], "slurm.launch", v.CONFIRMED, None),
        (["toomany.out"], "slurm.launch", v.CONFIRMED, None),
        (["cmd127.out"], "slurm.launch", v.LIKELY, None),
        (["cmd127.out", "cmd127.sacct.txt"], "slurm.launch", v.CONFIRMED, None),
        (["badout.sacct.txt"], "slurm.launch", v.CONFIRMED, None),
        (["badout.sacct.txt", "slurmd-n2.log"], "slurm.launch", v.CONFIRMED, None),
        (["slurmd-n2.log"], "slurm.launch", v.LIKELY, "n2"),
        (["preempt.out"], "slurm.preempted", v.CONFIRMED, None),
        (["preempt.out", "slurmctld.log"], "slurm.preempted", v.CONFIRMED, None),
        (["nodefail.out"], "slurm.node-fail", v.CONFIRMED, "n4"),
        (["nodefail.sacct.txt"], "slurm.node-fail", v.CONFIRMED, None),
        (["nodefail.scontrol.txt", "slurmctld.log"], "slurm.node-fail", v.CONFIRMED, "n4"),
        (["nodefail.scontrol.txt", "node-n4.txt"], "slurm.node-fail", v.CONFIRMED, "n4"),
        (["rootcancel.out"], "slurm.cancelled", v.LIKELY, None),
        (["rootcancel.out", "rootcancel.sacct.txt"], "slurm.cancelled", v.CONFIRMED, None),
        (["rootcancel.out", "slurmctld.log"], "slurm.cancelled", v.CONFIRMED, None),
        (["stepcancel.out"], "slurm.cancelled", v.POSSIBLE, None),
        (["stepcancel.out", "stepcancel.sacct.txt"], "slurm.cancelled", v.LIKELY, None),
        (["ctrl-c.out"], "process.interrupted", v.CONFIRMED, None),
        (["wait.out"], "process.left-early", v.LIKELY, None),
        (["cgoom.out"], "memory.cgroup-oom", v.CONFIRMED, "n3"),
        (["slurmd-n3.log"], "memory.cgroup-oom", v.LIKELY, "n3"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else None,
)
def test_a_recorded_failure(
    names: list[str], cause: str, confidence: str, host: str | None
) -> None:
    verdict = judged(*names)

    assert (verdict.cause.id, verdict.cause.confidence) == (cause, confidence)
    assert verdict.initiator.host == host


@pytest.mark.parametrize(
    "names", [["batchsig.sacct.txt"], ["batchsig.scontrol.txt"], ["slurmctld.log"]], ids="+".join
)
def test_what_does_not_tell_stays_unknown(names: list[str]) -> None:
    assert judged(*names).cause.id == "unknown"


def test_a_task_that_failed_is_not_hidden_by_the_step_that_srun_then_ended() -> None:
    assert judged("killbad.out").cause.id == "process.exit"


def test_who_cancelled_is_told() -> None:
    by_accounting = judged("rootcancel.out", "rootcancel.sacct.txt").cause.title
    by_the_controller = judged("rootcancel.out", "slurmctld.log").cause.title

    assert by_accounting == by_the_controller == "The job was cancelled by an administrator (root)"
