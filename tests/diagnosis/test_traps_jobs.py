"""Slurm's words and tasks, other jobs' evidence, and agents that could not meet."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from tests.diagnosis import made
from tests.diagnosis.made import WORK, sure_cause, sure_rank

KEY = "KeyError: 'mask'"
STEP_ENDS = ["srun: Job step aborted: Waiting up to 32 seconds for job step to finish."]
TIMEOUT = "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"
ELSEWHERE = "d[1-2]"


def failed(*more: list[str]) -> list[str]:
    """One agent's failure of its rank 1."""
    return [
        *(line for part in more for line in part),
        *made.noticed(1, 701, 1),
        *made.table((1, 1, 1, 701)),
    ]


@pytest.mark.parametrize(
    "then",
    [
        made.agent_stopped(),
        [*made.task_ended("c1", 0), *made.task_ended("c2", 1, "Terminated")],
        made.task_ended("c1", 0, "Segmentation fault"),
    ],
)
@pytest.mark.parametrize("why", [made.LIMIT, " DUE TO PREEMPTION", made.NODE_FAILURE])
def test_a_line_like_slurms_that_work_followed_may_be_a_programs(why: str, then: list[str]) -> None:
    verdict = made.judged(made.console(made.cancelled("JOB 500", "c1", why), WORK, then))

    assert sure_cause(verdict) is None


@pytest.mark.parametrize("why", [made.LIMIT, " DUE TO PREEMPTION"])
def test_slurms_line_that_an_order_to_stop_follows_is_sure(why: str) -> None:
    verdict = made.judged(
        made.console(WORK, made.cancelled("JOB 500", "c1", why), made.agent_stopped())
    )

    assert sure_cause(verdict) in ("slurm.time-limit", "slurm.preempted")


@pytest.mark.parametrize(
    "then", [made.agent_stopped(), made.task_ended("c1", 0, "Segmentation fault"), WORK[:1]]
)
def test_a_line_on_a_failed_node_alone_is_not_sure(then: list[str]) -> None:
    verdict = made.judged(made.console(["srun: error: Node failure on c2"], WORK, then))

    assert sure_cause(verdict) is None


def test_a_failed_node_that_the_job_went_on_without_did_not_surely_end_it() -> None:
    verdict = made.judged(
        made.console(["srun: error: Node failure on c2"], WORK, made.cancelled("JOB 500", "c1"))
    )

    assert sure_cause(verdict) is None


def test_a_failed_node_for_which_srun_ended_the_step_is_sure() -> None:
    verdict = made.judged(made.console(WORK, ["srun: error: Node failure on c2"], STEP_ENDS))

    assert sure_cause(verdict) == "slurm.node-fail"
    assert verdict.initiator.host == "c2"


@pytest.mark.parametrize(
    "state", ["TIMEOUT", "PREEMPTED", "COMPLETED", "NODE_FAIL", "CANCELLED by 7"]
)
def test_accounting_of_a_job_on_other_nodes_says_nothing_sure_of_this_output(state: str) -> None:
    verdict = made.judged(
        made.console(failed(), made.task_ended("c1", 0)),
        made.accounting(state, "0:0", nodes=ELSEWHERE),
    )

    assert verdict.cause.confidence != v.CONFIRMED
    assert any("another job" in note for note in verdict.notes)


def test_two_outputs_without_a_jobs_name_make_nothing_sure() -> None:
    verdict = made.judged(
        made.document("slurm-500.out", failed(made.of_rank(1, None, made.raised(KEY)))),
        made.document(
            "slurm-501.out", [*made.noticed(0, 600, -11, agent=80), *made.table((0, 0, -11, 600))]
        ),
    )

    assert sure_cause(verdict) is None
    assert sure_rank(verdict) is None


@pytest.mark.parametrize("code", [-9, 1])
def test_an_old_runs_record_does_not_explain_this_run(code: int) -> None:
    verdict = made.judged(
        made.console(made.noticed(1, 701, code), made.table((1, 1, code, 701))),
        made.document(
            "logs/none_old1/attempt_0/0/error.json", made.error_json("KeyError: 1", 1795900000)
        ),
        made.accounting("FAILED", nodes="c1"),
    )

    assert sure_cause(verdict) is None
    assert sure_rank(verdict) is None


def test_a_step_that_failed_makes_success_unsure() -> None:
    verdict = made.judged(made.console(WORK), made.accounting("COMPLETED", "0:0", step="FAILED"))

    assert sure_cause(verdict) is None


# One node's agent waits in vain for another's: what became of that one is the cause.
@pytest.mark.parametrize(
    ("words", "end"),
    [
        (["bash: line 1: torchrun: command not found"], "Exited with exit code 127"),
        ([], "Segmentation fault"),
        ([], "Killed"),
        ([], "Bus error"),
    ],
)
def test_agents_that_waited_for_one_that_ended_otherwise_do_not_tell_the_cause(
    words: list[str], end: str
) -> None:
    verdict = made.judged(
        made.console(
            made.of_task(1, words),
            made.of_task(0, made.agent_raised(TIMEOUT)),
            made.task_ended("c1", 0),
            made.task_ended("c2", 1, end),
        ),
        made.accounting("FAILED"),
    )

    assert sure_cause(verdict) is None


def test_agents_that_waited_for_one_whose_torch_is_missing_had_that_reason() -> None:
    missing = [
        "Traceback (most recent call last):",
        '  File "/opt/venv/bin/torchrun", line 5, in <module>',
        "    from torch.distributed.run import main",
        "ModuleNotFoundError: No module named 'torch'",
    ]
    verdict = made.judged(
        made.console(
            made.of_task(1, missing),
            made.of_task(0, made.agent_raised(TIMEOUT)),
            made.task_ended("c1", 0),
            made.task_ended("c2", 1),
        ),
        made.accounting("FAILED"),
    )

    assert verdict.cause.id == "python.import"


# srun's tasks: ranks themselves, or their launchers.
def test_a_crash_of_a_task_that_may_be_an_agent_names_no_rank() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.of_rank(0, None, WORK)),
            made.task_ended("c1", 0),
            made.task_ended("c2", 1, "Segmentation fault"),
        ),
        made.accounting("FAILED"),
    )

    assert sure_rank(verdict) is None
    assert verdict.initiator.rank is None


def test_tracebacks_of_tasks_that_hold_several_ranks_name_none_surely() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.raised(made.PEER)),
            made.of_task(1, made.raised(KEY)),
            made.of_task(0, made.raised(made.PEER)),
            made.of_task(1, made.raised(made.PEER)),
            made.task_ended("c1", 0),
            made.task_ended("c2", 1),
        ),
        made.accounting("FAILED"),
    )

    assert sure_rank(verdict) is None


def test_a_rank_that_is_not_its_task_shows_that_tasks_are_launchers() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.hooked(0, WORK[:2]), made.hooked(1, WORK[:2])),
            made.of_task(1, made.hooked(2, WORK[:2]), made.raised(KEY)),
            made.task_ended("c1", 0),
            made.task_ended("c2", 1),
        ),
        made.accounting("FAILED"),
    )

    assert sure_rank(verdict) is None
    assert verdict.initiator.rank != 1


def test_an_exit_code_of_a_task_beside_one_that_lost_its_peer_names_no_rank_surely() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.raised(made.PEER)),
            made.task_ended("c1", 0),
            made.task_ended("c2", 1, "Exited with exit code 9"),
        ),
        made.accounting("FAILED"),
    )

    assert sure_rank(verdict) is None


def test_an_exit_code_after_srun_had_ended_the_step_is_not_sure() -> None:
    verdict = made.judged(
        made.console(
            STEP_ENDS,
            made.of_task(0, WORK),
            made.task_ended("c1", 0, "Exited with exit code 5"),
            made.task_ended("c2", 1, "Terminated"),
        )
    )

    assert sure_cause(verdict) is None


def test_an_exit_code_after_a_cancellation_is_the_cancellations() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, WORK),
            made.cancelled("STEP 500.0", "c1"),
            STEP_ENDS,
            made.task_ended("c1", 0, "Exited with exit code 5"),
            made.task_ended("c2", 1, "Terminated"),
        ),
        made.accounting("CANCELLED by 1001", "0:15"),
    )

    assert verdict.cause.id == "slurm.cancelled"


@pytest.mark.parametrize("state", ["CANCELLED by 1001", "PREEMPTED", "TIMEOUT"])
def test_what_a_rank_raises_as_slurm_ends_it_is_not_sure(state: str) -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.of_rank(0, 0, made.raised("RuntimeError: save interrupted"))),
            STEP_ENDS,
            made.task_ended("c1", 0),
        ),
        made.accounting(state, "0:15"),
    )

    assert sure_cause(verdict) != "python.exception"
    assert sure_rank(verdict) is None


def test_an_interrupt_in_one_rank_beside_a_crash_is_not_sure() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0, made.of_rank(0, 0, made.raised("KeyboardInterrupt")), made.of_rank(1, 1, WORK)
            ),
            made.task_ended("c2", 1, "Segmentation fault"),
        )
    )

    assert sure_cause(verdict) != "process.interrupted"


def test_agents_that_were_told_to_stop_do_not_tell_by_whom() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.agent_stopped()), made.of_task(1, made.agent_stopped(agent=901))
        )
    )

    assert sure_cause(verdict) is None


REFUSED = (
    "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying "
    "to connect to (c1, 29500)."
)


def test_an_agent_that_could_not_reach_a_silent_node_does_not_tell_why() -> None:
    verdict = made.judged(
        made.console(made.of_task(1, made.agent_raised(REFUSED)), made.task_ended("c2", 1)),
        made.accounting("FAILED"),
        absent=("c1",),
    )

    assert sure_cause(verdict) is None


def test_an_agent_that_could_not_reach_one_that_failed_otherwise_does_not_tell_why() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, ["the launcher is not here"]),
            made.of_task(1, made.agent_raised(REFUSED)),
            made.task_ended("c1", 0),
            made.task_ended("c2", 1),
        ),
        made.accounting("FAILED"),
    )

    assert sure_cause(verdict) is None


def test_an_agent_that_could_not_reach_one_whose_rank_failed_is_no_cause() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(1, made.agent_raised(REFUSED)),
            made.of_task(
                0,
                made.of_rank(0, 0, made.raised(KEY)),
                made.noticed(0, 700, 1),
                made.table((0, 0, 1, 700)),
            ),
            made.task_ended("c1", 0),
            made.task_ended("c2", 1),
        ),
        made.accounting("FAILED"),
    )

    assert sure_cause(verdict) == "python.exception"
    assert sure_rank(verdict) == 0
