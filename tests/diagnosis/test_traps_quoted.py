"""Another job's log, quoted in this one's: it ends as a job does, and then this job works."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from firstfault.model.document import Document
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


def quoted_last(host: str) -> Document:
    """A console of a segfault on c1, behind which the script prints another labelled log."""
    ended = [*made.noticed(1, 701, -11), *made.table((1, 1, -11, 701))]
    other = [*made.WORK[:20], *made.hooked(1, made.raised("KeyError: 3"))]
    return made.console(
        made.of_task(0, made.WORK, ended),
        made.task_ended("c1", 0),
        ["+ tail -n 30 slurm-499.out"],
        made.of_task(0, other),
        made.task_ended(host, 0),
    )


@pytest.mark.parametrize(
    "evidence",
    [
        [quoted_last("c7")],
        [quoted_last("c7"), made.accounting("FAILED")],
        [quoted_last("c1"), made.accounting("FAILED")],
    ],
    ids=["another node", "a node that is not the job's", "more launches than steps"],
)
def test_a_log_that_is_printed_behind_the_jobs_end_makes_nothing_sure(
    evidence: list[Document],
) -> None:
    verdict = made.judged(*evidence)

    assert sure_cause(verdict) is None
    assert any("a launch more" in note for note in verdict.notes)


def test_a_second_step_that_accounting_has_is_the_jobs_own() -> None:
    console = quoted_last("c1")
    steps = made.accounting("FAILED").excerpts[0].data.decode().splitlines()
    sacct = made.document("sacct.txt", [*steps, steps[-1].replace("500.0", "500.1")])

    assert sure_cause(made.judged(console, sacct)) == "python.exception"


def test_the_parts_of_a_heterogeneous_jobs_step_are_one_step() -> None:
    ended = [*made.noticed(1, 701, -11), *made.table((1, 1, -11, 701))]
    console = made.console(made.of_task(0, made.WORK, ended), made.task_ended("c1", 0))
    *head, step = made.accounting("FAILED").excerpts[0].data.decode().splitlines()
    parts = [step.replace("500.0", f"500.0+{part}") for part in range(2)]

    verdict = made.judged(console, made.document("sacct.txt", [*head, *parts]))

    assert sure_cause(verdict) == "process.segfault"


@pytest.mark.parametrize(
    ("error", "sure"),
    [
        ("ConfigError: not started: the last run died of CUDA out of memory. Tried to", None),
        ("RuntimeError: will not resume after a CUDA out of memory error", None),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", "memory.gpu-oom"),
        ("TrainError: rank 3: CUDA out of memory. Tried to allocate", "memory.gpu-oom"),
    ],
)
def test_telling_words_behind_a_sentence_may_be_of_another_run(
    error: str, sure: str | None
) -> None:
    words = made.hooked(1, made.raised(error))
    failed = [*made.noticed(1, 701, 1), *made.table((1, 1, 1, 701))]
    verdict = made.judged(
        made.console(made.of_task(0, made.WORK, words, failed), made.task_ended("c1", 0)),
        made.accounting("FAILED", nodes="c1"),
    )

    assert verdict.cause.id == "memory.gpu-oom"
    assert sure_cause(verdict) == sure


@pytest.mark.parametrize("nodes", ["c1", "c[1-2]"])
@pytest.mark.parametrize("code", [-11, 3, 1])
def test_what_a_batch_scripts_own_program_raised_before_labelled_tasks_is_no_ranks(
    code: int, nodes: str
) -> None:
    tried = [
        *made.raised("torch.OutOfMemoryError: CUDA out of memory. Tried"),
        "1 failed, 3 passed",
    ]
    own = [*made.WORK, *made.noticed(1, 701, code), *made.table((1, 1, code, 701))]
    tasks = [made.of_task(0, own), made.of_task(1, made.WORK), made.task_ended("c1", 0)]
    verdict = made.judged(made.console(tried, *tasks), made.accounting("FAILED", nodes=nodes))

    assert sure_cause(verdict) is None
    assert code != -11 or verdict.cause.id == "process.segfault"
