"""Ctrl-C prints where each rank stood: whom the others waited for, if the job had hung."""

from __future__ import annotations

import pytest

from firstfault.diagnosis import diagnose
from firstfault.model import verdict as v
from tests.diagnosis import made
from tests.diagnosis.case_files import case

TORCH = "/opt/venv/lib/python3.11/site-packages/torch"
WAITS = [
    ("/home/eve/loop.py", 61, "train"),
    (f"{TORCH}/distributed/distributed_c10d.py", 3252, "all_reduce"),
]
READS = [("/home/eve/loop.py", 55, "train"), ("/home/eve/loop.py", 20, "read_shard")]
BACKWARD = [
    ("/home/eve/loop.py", 58, "train"),
    (f"{TORCH}/autograd/graph.py", 829, "_engine_run_backward"),
]
PRESSED = [
    "srun: interrupt (one more within 1 sec to abort)",
    "srun: sending Ctrl-C to StepId=500.0",
]
ENDED = made.cancelled("STEP 500.0", "c1")


def stack(frames: list[tuple[str, int, str]], error: str = "KeyboardInterrupt") -> list[str]:
    lines = ["Traceback (most recent call last):"]
    for file, line, name in frames:
        lines += [f'  File "{file}", line {line}, in {name}', "    go()"]
    return [*lines, error]


def judged(*stacks: list[str]) -> v.Verdict:
    ranks = [made.of_task(task, ["begun", *lines]) for task, lines in enumerate(stacks)]
    return made.judged(made.console(PRESSED, *ranks, ENDED))


def note(verdict: v.Verdict) -> str:
    return next((each for each in verdict.notes if each.startswith("When it was interrupted")), "")


@pytest.mark.parametrize(
    ("name", "stood"),
    [
        ("t213-interrupted-sleep", "rank 2 in refresh_token"),
        ("t213-interrupted-fifo", "rank 1 in read_shard"),
    ],
)
def test_a_real_interruption_of_a_hang_tells_who_stood_elsewhere(name: str, stood: str) -> None:
    verdict = diagnose(case(name))

    assert verdict.cause.id == "process.interrupted"
    assert stood in note(verdict)
    assert [each.cause for each in verdict.alternatives] == ["process.stuck"]
    assert verdict.alternatives[0].confidence == v.POSSIBLE


def test_one_that_stands_elsewhere_is_named_and_not_concluded() -> None:
    verdict = judged(stack(WAITS), stack(READS), stack(WAITS), stack(WAITS))

    assert verdict.cause.id == "process.interrupted"
    assert "3 ranks waited in a collective, and task 1 in" in note(verdict)
    assert "read_shard (loop.py:20)" in note(verdict)
    assert verdict.initiator.rank is None


@pytest.mark.parametrize(
    "stacks",
    [
        [stack(WAITS), stack(WAITS), stack(WAITS)],
        # a backward pass may wait, too
        [stack(WAITS), stack(BACKWARD), stack(WAITS)],
        # half against half
        [stack(WAITS), stack(READS)],
        # one was not seen: it may be the one
        [stack(WAITS), stack(READS), stack(WAITS), ["ready"]],
        [stack(READS), stack(READS), stack(READS)],
    ],
)
def test_stacks_that_do_not_tell_one_apart_tell_nothing(stacks: list[list[str]]) -> None:
    assert note(judged(*stacks)) == ""


def test_an_interruption_tells_since_when_the_job_had_said_nothing() -> None:
    lines = [
        f"2026-11-30 09:5{minute}:{second:02d},000 INFO step {6 * minute + second // 10} of 900"
        for minute in range(3)
        for second in range(0, 60, 10)
    ]
    ranks = [made.of_task(task, [*lines, *stack(WAITS)]) for task in range(2)]
    account = made.accounting("CANCELLED", "0:0")
    verdict = made.judged(
        made.console(PRESSED, *ranks, made.cancelled("STEP 500.0", "c1", clock="11:40:00")), account
    )

    assert verdict.cause.id == "process.interrupted"
    assert any("01:47:10 before the end" in each for each in verdict.notes)
    assert "process.stuck" in {each.cause for each in verdict.alternatives}
