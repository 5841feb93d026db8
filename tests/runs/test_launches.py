"""Where one launch of a job ends and the next begins."""

from __future__ import annotations

import pytest

from firstfault.model.case import Case
from firstfault.model.document import Document
from firstfault.model.event import FatalError, Traceback
from firstfault.model.run import Run
from firstfault.runs.told import told
from tests.readers.logs import document
from tests.readers.test_elastic import RESULT, table

BANNER = (
    "W1130 16:06:59.358000 {pid} torch/distributed/run.py:803] Setting OMP_NUM_THREADS environment "
    "variable for each process to be 1 in default\n"
)
FAILED = (
    "E1130 16:06:59.358000 {pid} torch/distributed/elastic/multiprocessing/api.py:1002] "
    "failed (exitcode: 1) local_rank: 2 (pid: {child}) of binary: /usr/bin/python3\n"
)
ERROR = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: {word}\n'


def later(text: str) -> str:
    """A table of a later launch: other pids."""
    return text.replace("102932", "202932").replace("102933", "202933")


def lone() -> str:
    """A table of the only node: its ranks are its local ranks."""
    return table(host="n1")


def steps(first: int, prefix: str = "") -> str:
    return "".join(f"{prefix}step {number} loss 0.5\n" for number in range(first, first + 4))


def runs(*documents: str | Document) -> tuple[Run, ...]:
    found = [document(each) if isinstance(each, str) else each for each in documents]
    return told(Case(documents=tuple(found))).runs


def words(run: Run) -> list[str]:
    return [each.event.message for each in run.happened if isinstance(each.event, Traceback)]


def numbers(found: tuple[Run, ...]) -> list[tuple[int, int, int]]:
    return [(run.requeue, run.launch, run.attempt) for run in found]


def test_a_launcher_that_begins_after_a_table_is_another_launch() -> None:
    found = runs(
        BANNER.format(pid=7) + ERROR.format(word="a") + lone()
        + BANNER.format(pid=8) + ERROR.format(word="b") + later(lone())
    )  # fmt: skip

    assert numbers(found) == [(0, 0, 0), (0, 1, 0)]
    assert [words(run) for run in found] == [["a"], ["b"]]


def test_agents_that_begin_before_any_table_are_one_launch() -> None:
    found = runs(
        BANNER.format(pid=7) + BANNER.format(pid=8) + ERROR.format(word="a")
        + table(host="n1") + table(host="n2", rank=10)
    )  # fmt: skip

    assert numbers(found) == [(0, 0, 0)]


def test_ranks_that_start_at_restart_0_after_a_table_are_another_launch() -> None:
    found = runs(lone() + RESULT.replace("restart_count=1", "restart_count=0") + steps(0))

    assert numbers(found) == [(0, 0, 0), (0, 1, 0)]


def test_a_second_table_of_a_rank_is_another_launchs() -> None:
    found = runs(
        ERROR.format(word="a") + FAILED.format(pid=7, child=102932) + lone()
        + ERROR.format(word="b") + FAILED.format(pid=8, child=202932) + later(lone())
    )  # fmt: skip

    assert numbers(found) == [(0, 0, 0), (0, 1, 0)]
    assert [words(run) for run in found] == [["a"], ["b"]]


def test_tables_of_two_agents_are_one_launch() -> None:
    assert numbers(runs(table(host="n1") + table(host="n2", rank=10))) == [(0, 0, 0)]


STEP = "srun: error: n1: task 0: Exited with exit code 1\nsrun: Terminating StepId=42.{step}\n"


def test_steps_one_after_another_are_launches_and_each_run_knows_its_step() -> None:
    found = runs(
        ERROR.format(word="a") + STEP.format(step=0) + ERROR.format(word="b") + STEP.format(step=1)
    )

    assert [(run.launch, run.step) for run in found] == [(0, "0"), (1, "1")]
    assert [words(run) for run in found] == [["a"], ["b"]]


def test_steps_that_overlap_are_not_told_apart() -> None:
    found = runs(STEP.format(step=0) + STEP.format(step=1) + STEP.format(step=0))

    assert numbers(found) == [(0, 0, 0)]


def test_a_task_that_trains_on_after_its_own_table_is_another_launchs() -> None:
    labelled = "".join(f"0: {each}\n" for each in table(host="n1").splitlines())

    found = runs(steps(0, "0: [default0]:") + labelled + steps(0, "0: [default0]:"))

    assert numbers(found) == [(0, 0, 0), (0, 1, 0)]
    assert [run.progressed for run in found] == [False, True]


def test_other_tasks_that_train_on_after_a_table_are_not() -> None:
    labelled = "".join(f"0: {each}\n" for each in table(host="n1").splitlines())

    assert numbers(runs(steps(0, "1: ") + labelled + steps(4, "1: "))) == [(0, 0, 0)]


@pytest.mark.parametrize(("text", "count"), [(table(host="n1"), 2), (table(host="n1", rank=10), 1)])
def test_in_a_console_without_labels_only_a_lone_agents_table_is_the_end(
    text: str, count: int
) -> None:
    assert len(runs(steps(0) + text + steps(0))) == count


REQUEUE = "slurmstepd-n1: error: *** JOB 42 ON n1 CANCELLED AT 2026-11-30T10:00:00 DUE TO JOB REQUEUE ***\n"  # fmt: skip


def test_a_job_that_begins_anew_after_slurm_ended_it_was_requeued() -> None:
    found = runs(steps(5, "0: ") + REQUEUE + steps(0, "0: "))

    assert numbers(found) == [(0, 0, 0), (1, 1, 0)]


def test_what_ranks_say_while_slurm_ends_them_is_no_new_life() -> None:
    assert numbers(runs(steps(5, "0: ") + REQUEUE + steps(9, "0: "))) == [(0, 0, 0)]


def test_another_jobs_part_of_a_file_is_left_out_where_the_job_is_known() -> None:
    other = ERROR.format(word="a") + REQUEUE.replace("42", "41").replace(" DUE TO JOB REQUEUE", "")
    epilog = document("SLURM_SCRIPT_CONTEXT=epilog_slurmd\nSLURM_JOB_ID=42\n", "epilog.txt")

    found = runs(
        other + BANNER.format(pid=8) + ERROR.format(word="b") + STEP.format(step=0), epilog
    )

    assert [words(run) for run in found] == [["b"]]


def test_a_run_folder_is_of_the_launch_whose_table_names_it() -> None:
    named = lone().replace(
        "error_file: <N/A>\n  traceback : Signal",
        "error_file: /x/r_1/attempt_0/2/error.json\n  traceback : Signal",
    )
    crash = 'Fatal Python error: Segmentation fault\n\nCurrent thread 0x01 (most recent call first):\n  File "a.py", line 1 in f\n'  # fmt: skip

    found = runs(
        lone() + BANNER.format(pid=8) + later(named),
        document(crash, "x/r_1/attempt_0/2/stderr.log"),
    )

    crashed = [[e for e in run.happened if isinstance(e.event, FatalError)] for run in found]
    assert [len(each) for each in crashed] == [0, 1]


def test_agents_say_how_many_ranks_there_are() -> None:
    (run,) = runs(RESULT.replace("restart_count=1", "restart_count=0"))

    assert (run.expected_ranks, run.expected_agents) == (4, 2)
    assert [(each.rank, each.local_rank) for each in run.roster] == [(2, 0), (3, 1)]


def test_programs_that_disagree_on_the_number_of_ranks_tell_none() -> None:
    (run,) = runs("world_size=8\nworld_size=16\n")

    assert run.expected_ranks is None
    assert runs("world_size=8\n")[0].expected_ranks == 8


def test_lines_are_counted_for_the_attempt_in_which_they_were_heard() -> None:
    failed = "".join(f"0: {each}\n" for each in FAILED.format(pid=7, child=5).splitlines())

    found = runs("0: [default0]:step 1\n" + failed + "0: [default0]:step 1\n0: [default0]:step 2\n")

    assert [run.attempt for run in found] == [0, 1]
    assert [[p.lines for p in run.roster if p.local_rank == 0] for run in found] == [[1], [2]]
    assert [run.progressed for run in found] == [False, True]
