"""Evidence that allows it makes a verdict sure: the plain logs that people have."""

from __future__ import annotations

from firstfault.model import verdict as v
from tests.diagnosis import made

KEY = "KeyError: 'mask'"


def sure(verdict: v.Verdict) -> tuple[str, int | None, str | None]:
    assert verdict.cause.confidence == v.CONFIRMED
    assert verdict.initiator.confidence == v.CONFIRMED
    return verdict.cause.id, verdict.initiator.rank, verdict.initiator.host


def test_one_node_with_torchs_own_prefix() -> None:
    verdict = made.judged(
        made.console(
            ["step 1 loss 0.5"],
            [f"[rank1]: {line}" for line in made.raised(KEY)],
            made.closed(700),
            made.noticed(1, 701, 1),
            made.table((1, 1, 1, 701), (0, 0, -15, 700), errors={1: KEY}),
        )
    )

    assert sure(verdict) == ("python.exception", 1, None)


def test_one_node_without_any_prefix() -> None:
    verdict = made.judged(
        made.console(
            ["step 1 loss 0.5"],
            made.raised(KEY),
            made.closed(700),
            made.noticed(1, 701, 1),
            made.table((1, 1, 1, 701), (0, 0, -15, 700)),
        )
    )

    assert sure(verdict) == ("python.exception", 1, None)


def test_two_nodes_without_labels_whose_tables_name_their_hosts() -> None:
    first = made.table((1, 1, 1, 701), errors={1: KEY})
    second = made.table((2, 0, 1, 800), errors={2: made.PEER})
    verdict = made.judged(
        made.console(
            [f"[rank1]: {line}" for line in made.raised(KEY)],
            [f"[rank2]: {line}" for line in made.raised(made.PEER)],
            made.noticed(1, 701, 1, agent=90),
            [line.replace("localhost", "c1") for line in first],
            made.noticed(0, 800, 1, agent=91),
            [line.replace("localhost", "c2") for line in second],
        ),
        made.accounting("FAILED"),
    )

    assert sure(verdict) == ("python.exception", 1, "c1")


def test_a_console_alone_with_an_oom_kill_that_slurm_and_the_agent_noticed() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.closed(700),
                made.noticed(1, 701, -9),
                made.table((1, 1, -9, 701), (0, 0, -15, 700)),
                [
                    "slurmstepd: error: Detected 1 oom_kill event in StepId=500.0. Some of the step "
                    "tasks have been OOM Killed."
                ],
            ),
            made.task_ended("c1", 0, "Out Of Memory"),
        )
    )

    assert sure(verdict) == ("memory.cgroup-oom", 1, "c1")


def test_a_segfault_in_a_table() -> None:
    verdict = made.judged(
        made.console(
            made.closed(700),
            made.noticed(1, 701, -11),
            made.table((1, 1, -11, 701), (0, 0, -15, 700)),
        )
    )

    assert sure(verdict) == ("process.segfault", 1, None)


def test_a_cancellation_that_accounting_knows() -> None:
    verdict = made.judged(
        made.console(["step 1 loss 0.5"], made.cancelled("JOB 500", "c1")),
        made.accounting("CANCELLED by 1001", "0:0"),
    )

    assert (verdict.cause.id, verdict.cause.confidence) == ("slurm.cancelled", v.CONFIRMED)


def test_a_node_that_accounting_and_srun_call_failed() -> None:
    verdict = made.judged(
        made.console(["step 1 loss 0.5"], ["srun: error: Node failure on c2"]),
        made.accounting("NODE_FAIL", "0:0"),
    )

    assert sure(verdict) == ("slurm.node-fail", None, "c2")
