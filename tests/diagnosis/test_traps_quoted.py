"""Another job's log, quoted in this one's: it ends as a job does, and then this job works."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from tests.diagnosis import made
from tests.diagnosis.made import sure_cause

OOM = (
    "slurmstepd: error: Detected 1 oom_kill event in StepId=499.0. Some of the step tasks have been "
    "OOM Killed."
)
ENDED = "srun: launch/slurm: _step_signal: Terminating StepId=499.0"
QUOTES = {
    "oom": [OOM, *made.task_ended("c3", 2, "Out Of Memory")],
    "node": ["srun: error: Node failure on c3", ENDED],
    "poll": [
        "slurmstepd: error: StepId=499.0 exceeded memory limit (4211081216 > 4194304000), being killed",
        *made.cancelled("STEP 499.0", "c3"),
    ],
    "segfault": [*made.noticed(1, 701, -11), *made.table((3, 1, -11, 701))],
    "exception": [
        *made.noticed(1, 701, 1),
        *made.table((3, 1, 1, 701), errors={3: "ValueError: bad shard"}),
    ],
}


@pytest.mark.parametrize("quote", QUOTES.values(), ids=QUOTES)
def test_the_end_of_a_quoted_log_is_not_surely_this_jobs(quote: list[str]) -> None:
    verdict = made.judged(made.console(["$ cat slurm-499.out", *quote, "resuming", *made.WORK]))

    assert verdict.cause.confidence != v.CONFIRMED


@pytest.mark.parametrize("quote", QUOTES.values(), ids=QUOTES)
def test_an_end_that_no_work_follows_is_this_jobs(quote: list[str]) -> None:
    assert sure_cause(made.judged(made.console([*made.WORK, *quote]))) is not None


def test_a_step_that_slurm_killed_and_after_which_another_worked_did_not_surely_end_the_job() -> (
    None
):
    poll = "slurmstepd: error: StepId=500.3 exceeded memory limit (4211081216 > 4194304000), being killed"
    lines = [*made.WORK[:4], poll, *made.WORK[4:], *made.task_ended("c1", 0)]
    verdict = made.judged(made.console(lines), made.accounting("FAILED"))

    assert verdict.cause.confidence != v.CONFIRMED


def test_what_torchrun_passes_on_late_is_no_work_after_its_table() -> None:
    late = made.of_task(1, made.of_rank(0, None, made.WORK[:4]))
    agents = [*made.noticed(1, 701, -11), *made.table((3, 1, -11, 701))]
    verdict = made.judged(made.console(made.of_task(0, agents), late, made.task_ended("c1", 0)))

    assert sure_cause(verdict) == "process.segfault"


@pytest.mark.parametrize("what", ["job-output", None])
def test_a_quote_of_another_job_does_not_make_the_output_another_jobs(what: str | None) -> None:
    lines = ["$ cat slurm-499.out", OOM, "resuming", *made.WORK, *made.raised("KeyError: 3")]
    verdict = made.judged(
        made.document("slurm-500.out", lines, what=what), made.accounting("FAILED")
    )

    assert sure_cause(verdict) == "python.exception"
