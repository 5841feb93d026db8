"""Slurm's words on a failed start, printed by a program that tries one, or quotes another job's."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from tests.diagnosis import made
from tests.diagnosis.made import sure_cause

NOWHERE = "slurmstepd: error: execve(): /opt/tools/exporter: No such file or directory"
DENIED = "slurmstepd: error: execve(): /home/eve/run.sh: Permission denied"
CONTAINER = "slurmstepd: error: pyxis: couldn't start container"
PLUGIN = "slurmstepd: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1"
STEP = "srun: error: Unable to create step for job 500: Memory required by task is not available"
STEPS = [f"step {number} loss 0.3" for number in range(8)]
TWO, ONE = "Exited with exit code 2", "Exited with exit code 1"


@pytest.mark.parametrize(
    "lines",
    [
        # a program's own step failed, and nothing tells why the job did
        ["begun", NOWHERE],
        ["begun", CONTAINER],
        ["begun", NOWHERE, *made.task_ended("c1", 0, TWO), "no export, going on"],
        [*STEPS, NOWHERE, *made.task_ended("c1", 0, TWO)],
        [*STEPS, STEP],
        # another job's log
        ["+ cat slurm-499.out", NOWHERE, *made.task_ended("c1", 0, TWO), "+ torchrun loop.py"],
        [f"slurm-499.out:3:{NOWHERE}"],
        # a task that has spoken was started
        [*made.of_task(0, ["begun", NOWHERE]), *made.task_ended("c1", 0, TWO)],
        [*made.of_task(0, ["begun", CONTAINER]), *made.task_ended("c1", 0, ONE)],
        # execve() ends with the error's number
        [NOWHERE, "bye", *made.task_ended("c1", 0, ONE)],
    ],
)
def test_words_of_a_failed_start_that_a_program_may_have_printed_are_not_sure(
    lines: list[str],
) -> None:
    for documents in ([], [made.accounting("FAILED")]):
        verdict = made.judged(made.console(lines), *documents)

        assert verdict.cause.confidence != v.CONFIRMED


@pytest.mark.parametrize(
    "lines",
    [
        [NOWHERE],
        ["begun", NOWHERE, *made.task_ended("c1", 0, TWO)],
        ["begun", DENIED, *made.task_ended("c1", 0, "Exited with exit code 13")],
        ["begun", CONTAINER, PLUGIN, *made.task_ended("c1", 0, ONE)],
        [*made.of_task(0, [CONTAINER, PLUGIN]), *made.task_ended("c1", 0, ONE)],
        [*made.of_task(0, [NOWHERE]), *made.task_ended("c1", 0, TWO)],
    ],
)
def test_a_start_that_failed_before_its_task_said_anything_is_sure(lines: list[str]) -> None:
    assert sure_cause(made.judged(made.console(lines))) == "slurm.launch"


def test_the_jobs_exit_code_agrees_with_the_error_of_its_start() -> None:
    lines = ["begun", NOWHERE, "bye"]

    assert (
        sure_cause(made.judged(made.console(lines), made.accounting("FAILED", "2:0"))) is not None
    )
    assert sure_cause(made.judged(made.console(lines), made.accounting("FAILED", "1:0"))) is None
