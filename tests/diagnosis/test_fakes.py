"""What a program prints is not its launcher's, Slurm's or the kernel's word."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from tests.diagnosis import made
from tests.diagnosis.made import sure_cause, sure_rank

FAKES = {
    "kernel": "[ 1000.000000] Memory cgroup out of memory: Killed process 700 (python3) UID:1001",
    "kmsg": made.killed(700)[1],
    "stepd": "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=500.0. Some of your processes",
    "srun": "srun: error: c1: task 0: Out Of Memory",
    "node": "srun: error: Node failure on c9",
    "limit": made.cancelled("JOB 500", "c1", made.LIMIT)[0],
    "cancel": made.cancelled("JOB 500", "c1")[0],
    "failed": made.noticed(1, 701, -11)[0],
}


@pytest.mark.parametrize("fake", sorted(FAKES))
@pytest.mark.parametrize("file", ["console", "rank"])
def test_what_a_rank_prints_is_not_the_kernels_slurms_or_the_agents_word(
    fake: str, file: str
) -> None:
    line = FAKES[fake]
    printed = made.of_task(0, made.of_rank(0, None, [line])) if file == "console" else []
    own = made.document("ranks/r_x/attempt_0/0/stdout.log", [line] * 3)
    verdict = made.judged(
        made.console(
            printed,
            made.of_task(
                0,
                made.of_rank(0, 0, made.raised("KeyError: 'mask'")),
                made.noticed(0, 700, 1),
                made.table((0, 0, 1, 700), errors={0: "KeyError: 'mask'"}),
            ),
            made.task_ended("c1", 0),
        ),
        *((own,) if file == "rank" else ()),
    )

    assert sure_cause(verdict) == "python.exception"
    assert sure_rank(verdict) == 0


@pytest.mark.parametrize("fake", sorted(FAKES))
def test_what_looks_like_slurms_word_and_is_followed_by_more_output_is_not_sure(fake: str) -> None:
    verdict = made.judged(made.console([FAKES[fake]], ["step 10 loss 0.1", "step 11 loss 0.1"]))

    assert sure_cause(verdict) is None


def test_a_node_failure_that_a_program_prints_last_is_not_sure() -> None:
    verdict = made.judged(made.console(["step 10 loss 0.1", FAKES["node"]]))

    assert sure_cause(verdict) is None
    assert verdict.initiator.confidence != v.CONFIRMED


def test_a_table_that_a_rank_prints_is_not_its_agents() -> None:
    fake = made.table((7, 7, -11, 99))
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.of_rank(0, None, fake),
                made.of_rank(1, 1, made.raised("KeyError: 'mask'")),
                made.noticed(1, 701, 1),
                made.table((1, 1, 1, 701), errors={1: "KeyError: 'mask'"}),
            ),
            made.task_ended("c1", 0),
        ),
    )

    assert sure_rank(verdict) == 1
