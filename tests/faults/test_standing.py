"""Stacks of all ranks tell whom the others wait for."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from tests.diagnosis import made
from tests.faults.test_hang import accounting, ended, steps

TORCH = "/opt/venv/lib/python3.11/site-packages/torch"
WAITS = [
    f'  File "{TORCH}/distributed/distributed_c10d.py", line 3252 in all_reduce',
    '  File "/home/eve/train.py", line 97 in main',
]
BACKWARD = [
    f'  File "{TORCH}/autograd/graph.py", line 829 in _engine_run_backward',
    '  File "/home/eve/train.py", line 95 in main',
]
JOINS = [
    f'  File "{TORCH}/distributed/distributed_c10d.py", line 1500 in init_process_group',
    '  File "/home/eve/train.py", line 20 in main',
]
READS = [
    '  File "/home/eve/data.py", line 41 in read_batch',
    '  File "/home/eve/train.py", line 93 in main',
]


def dump(frames: list[str]) -> list[str]:
    return ["Timeout (0:01:00)!", "Thread 0x00007f1 (most recent call first):", *frames]


def judged(*stacks: list[str], dumps: int = 1, hung: bool = True, after: str = "") -> v.Verdict:
    tasks = list(enumerate(stacks))
    silent = [f"{task}: working" for task, _ in tasks]
    work = steps(tasks=len(tasks)) if hung else silent
    dumped = [made.of_task(task, dump(frames)) for _ in range(dumps) for task, frames in tasks]
    later = made.of_task(0, [after] if after else [])
    console = made.console(work, *dumped, later, ended("10:09:00"))
    return made.judged(console, accounting("TIMEOUT", "10:09:00"))


def test_one_rank_that_stands_elsewhere_is_whom_the_others_wait_for() -> None:
    verdict = judged(WAITS, READS, WAITS, BACKWARD)

    assert (verdict.cause.id, verdict.cause.confidence) == ("process.stuck", "likely")
    assert (verdict.initiator.rank, verdict.initiator.confidence) == (1, "likely")
    assert verdict.cause.title.startswith("Rank 1 stood still in read_batch (data.py:41)")
    assert "slurm.time-limit" in {each.cause for each in verdict.alternatives}
    assert "read_batch" in verdict.evidence[0].text


def test_two_dumps_of_each_that_are_alike_tell_without_any_times() -> None:
    assert judged(WAITS, READS, WAITS, dumps=2, hung=False).initiator.rank == 1


@pytest.mark.parametrize(
    ("what", "stacks"),
    [
        ("all wait", (WAITS, WAITS, WAITS)),
        ("all read", (READS, READS, READS)),
        ("half of them read", (READS, READS, WAITS, WAITS)),
        ("nobody is in a collective yet", (JOINS, READS, JOINS)),
        ("those that may wait are alone", (BACKWARD, READS, BACKWARD)),
    ],
)
def test_stacks_that_tell_no_one_apart_leave_the_cause_with_slurm(
    what: str, stacks: tuple[list[str], ...]
) -> None:
    verdict = judged(*stacks)

    assert verdict.cause.id == "slurm.time-limit", what
    assert verdict.initiator.rank is None


def test_two_of_five_that_stand_elsewhere_are_candidates() -> None:
    verdict = judged(WAITS, READS, WAITS, READS, WAITS)

    assert verdict.cause.id == "process.stuck"
    assert [each.rank for each in verdict.initiator.candidates] == [1, 3]


def test_one_dump_of_a_job_that_is_not_known_to_hang_tells_nothing() -> None:
    assert judged(WAITS, READS, WAITS, hung=False).cause.id == "slurm.time-limit"


def test_a_job_that_counts_steps_after_its_dumps_is_at_work() -> None:
    verdict = judged(WAITS, READS, WAITS, dumps=2, hung=False, after="step 70/900")

    assert verdict.cause.id == "slurm.time-limit"


def test_where_all_stand_in_one_place_of_their_own_it_is_named() -> None:
    verdict = judged(READS, READS, READS)

    assert any("all ranks stood in read_batch" in note for note in verdict.notes)


def test_where_a_rank_was_not_seen_it_may_be_the_one() -> None:
    lines = steps(tasks=4)
    work = [made.of_task(n, made.of_rank(0, n, ["step 1"])) for n in range(4)]
    dumped = [made.of_task(n, made.of_rank(0, n, dump(f))) for n, f in ((0, WAITS), (1, READS))]
    console = made.console(*work, lines, *dumped, ended("10:09:00"))

    verdict = made.judged(console, accounting("TIMEOUT", "10:09:00"))

    assert verdict.cause.id == "slurm.time-limit"
