"""Pids, hosts and kernel lines that are not the rank's, and launches that are not the job's first."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from tests.diagnosis import made
from tests.diagnosis.made import WORK, sure_cause, sure_rank

KEY = "KeyError: 'mask'"
NOTICE = [
    "slurmstepd: error: Detected 1 oom_kill event in StepId=500.0. Some of the step tasks have been "
    "OOM Killed."
]
ENDED = made.task_ended("c1", 0)
ACCOUNT = made.accounting("FAILED", nodes="c1")


def died(code: int = -9, *more: list[str]) -> list[str]:
    """Rank 0's end, as its agent notes it."""
    return made.of_task(0, *more, made.noticed(0, 700, code), made.table((0, 0, code, 700)))


def outside(lines: list[str]) -> list[str]:
    """The kill in a cgroup that names no job."""
    return [line.replace("/slurm/uid_1001/job_77", "/user.slice") for line in lines]


def printed(lines: list[str]) -> list[str]:
    """The lines as dmesg prints them."""
    return [f"[ 1000.00000{n}] {line.partition(';')[2]}" for n, line in enumerate(lines)]


@pytest.mark.parametrize("at_s", [100, 580, 4000])
def test_a_kill_of_the_same_pid_at_another_time_is_not_surely_the_ranks(at_s: int) -> None:
    verdict = made.judged(
        made.console(died(), ENDED),
        made.kernel_log("c1", outside(made.killed(700, job="77", at_s=at_s))),
        ACCOUNT,
    )

    assert sure_cause(verdict) is None
    assert sure_rank(verdict) is None


def test_the_same_where_no_job_is_named() -> None:
    verdict = made.judged(
        made.console(died(), ENDED), made.kernel_log("c1", made.killed(700, job="77", at_s=100))
    )

    assert sure_cause(verdict) is None


def test_a_kill_of_the_ranks_pid_at_its_end_is_sure() -> None:
    verdict = made.judged(
        made.console(died(), ENDED),
        made.kernel_log("c1", outside(made.killed(700, job="77", at_s=1003))),
        ACCOUNT,
    )

    assert sure_cause(verdict) == "memory.cgroup-oom"
    assert sure_rank(verdict) == 0


def test_a_kill_in_an_earlier_boot_is_not_surely_the_ranks() -> None:
    boot = ["[    0.000000] Linux version 6.1.0 (x@y)"]
    log = [*boot, *printed(made.killed(700, job="77")), *boot, "[    5.000000] usb 1-1: new device"]
    verdict = made.judged(made.console(died(), ENDED), made.kernel_log("c1", log), ACCOUNT)

    assert sure_cause(verdict) is None


@pytest.mark.parametrize("host", ["c2", "d7"])
def test_a_kill_of_the_same_pid_elsewhere_is_not_the_ranks(host: str) -> None:
    verdict = made.judged(
        made.console(died(), ENDED),
        made.kernel_log(host, made.killed(700, job="77", uid=1002)),
        made.accounting("FAILED"),
    )

    assert sure_cause(verdict) is None


def test_kernel_lines_that_a_rank_prints_kill_nobody() -> None:
    verdict = made.judged(
        made.console(died(-9, made.of_rank(0, 0, printed(made.killed(700)))), ENDED), ACCOUNT
    )

    assert sure_cause(verdict) is None
    assert not verdict.cause.id.startswith("memory.")


def test_kernel_lines_in_a_console_without_prefixes_are_not_sure() -> None:
    verdict = made.judged(
        made.console(
            printed(made.killed(700)), made.noticed(0, 700, -9), made.table((0, 0, -9, 700))
        ),
        ACCOUNT,
    )

    assert sure_cause(verdict) is None


def test_slurmstepds_note_that_a_rank_prints_is_not_slurmstepds() -> None:
    verdict = made.judged(made.console(died(-9, made.of_rank(0, 0, NOTICE)), ENDED), ACCOUNT)

    assert sure_cause(verdict) is None


def test_slurmstepds_note_beside_a_segfault_is_of_another_process() -> None:
    verdict = made.judged(made.console(died(-11), made.of_task(0, NOTICE), ENDED), ACCOUNT)

    assert sure_cause(verdict) != "memory.cgroup-oom"


def test_slurmstepds_note_does_not_explain_a_kill_beside_an_end_that_came_first() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.of_rank(1, 1, WORK),
                made.closed(700),
                made.table((1, 1, 7, 701), (0, 0, -9, 700)),
                NOTICE,
            ),
            ENDED,
        ),
        ACCOUNT,
    )

    assert sure_rank(verdict) is None


def test_slurmstepds_note_of_nobody_is_not_surely_of_the_node_whose_rank_died() -> None:
    verdict = made.judged(
        made.console(
            made.noticed(0, 700, -9),
            made.hosted(made.table((0, 0, -9, 700)), "c1"),
            NOTICE,
            ENDED,
            made.task_ended("c2", 1, "Out Of Memory"),
        ),
        made.accounting("OUT_OF_MEMORY", "0:125"),
    )

    assert sure_rank(verdict) is None


def test_accountings_word_of_memory_does_not_tell_which_of_two_ends_it_means() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.of_rank(1, 1, WORK), made.table((1, 1, 4, 701), (0, 0, -9, 700))),
            ENDED,
        ),
        made.accounting("OUT_OF_MEMORY", "0:125", nodes="c1"),
    )

    assert sure_rank(verdict) is None


def test_a_kernel_log_of_another_host_does_not_make_a_kill_without_oom_sure() -> None:
    verdict = made.judged(
        made.console(made.noticed(0, 700, -9), made.table((0, 0, -9, 700))),
        ACCOUNT,
        kernel_read=("c7",),
    )

    assert verdict.cause.confidence == v.LIKELY


# Containers of one image have one name.
def test_two_agents_on_hosts_of_one_name_are_two() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.hooked(0, made.raised(made.PEER)),
                made.noticed(0, 101, 1),
                made.hosted(made.table((0, 0, 1, 101), errors={0: made.PEER}), "trainer"),
            ),
            made.of_task(
                1,
                made.noticed(0, 101, -11, agent=91),
                made.hosted(made.table((1, 0, -11, 101)), "trainer"),
            ),
        ),
        made.accounting("FAILED"),
    )

    assert sure_cause(verdict) == "process.segfault"
    assert verdict.initiator.rank == 1


def test_the_same_without_labels_blames_nobody_surely_but_the_one_that_crashed() -> None:
    verdict = made.judged(
        made.console(
            made.hooked(0, made.raised(made.PEER)),
            made.noticed(0, 101, 1),
            made.hosted(made.table((0, 0, 1, 101), errors={0: made.PEER}), "trainer"),
            made.noticed(0, 101, -11, agent=91),
            made.hosted(made.table((1, 0, -11, 101)), "trainer"),
        ),
        made.accounting("FAILED"),
    )

    assert sure_rank(verdict) in (None, 1)


def test_a_rank_that_the_only_table_does_not_list_is_on_an_unknown_host() -> None:
    verdict = made.judged(
        made.console(
            made.hooked(1, made.raised(KEY)),
            made.hooked(0, made.raised(made.PEER)),
            made.noticed(0, 700, 1),
            made.hosted(made.table((0, 0, 1, 700), errors={0: made.PEER}), "c1"),
        )
    )

    assert verdict.initiator.rank == 1
    assert verdict.initiator.host is None


def test_one_local_rank_with_two_pids_is_of_two_agents() -> None:
    verdict = made.judged(
        made.console(
            made.hooked(1, made.raised(KEY)),
            made.noticed(0, 800, 1, agent=901),
            made.hosted(made.table((0, 0, 1, 700)), "c1"),
        )
    )

    assert verdict.initiator.host is None


def test_a_job_that_began_anew_after_a_failure_has_not_surely_failed_for_it() -> None:
    verdict = made.judged(
        made.console(
            made.of_rank(1, 1, made.raised(KEY)), made.noticed(1, 701, 1), made.of_rank(0, 0, WORK)
        )
    )

    assert sure_cause(verdict) is None


def test_of_two_attempts_the_one_that_worked_on_and_failed_answers() -> None:
    verdict = made.judged(
        made.console(
            made.of_rank(0, 0, made.raised(KEY)),
            made.noticed(0, 700, 1),
            made.of_rank(1, 1, WORK),
            made.noticed(1, 801, -11),
            made.table((1, 1, -11, 801)),
        ),
        ACCOUNT,
    )

    assert sure_cause(verdict) == "process.segfault"
    assert sure_rank(verdict) == 1


def test_an_order_to_stop_by_another_agent_than_the_tables_shows_that_there_are_two() -> None:
    verdict = made.judged(
        made.console(
            made.hooked(3, made.raised(KEY)),
            made.hooked(1, made.raised(made.PEER)),
            made.closed(811, agent=901),
            made.noticed(1, 701, 1, agent=900),
            made.hosted(made.table((1, 1, 1, 701), errors={1: made.PEER}), "c1"),
        )
    )

    assert verdict.initiator.rank == 3
    assert verdict.initiator.host is None


def test_more_ranks_that_failed_than_one_agent_tells_of_are_on_unknown_hosts() -> None:
    verdict = made.judged(
        made.console(
            made.hooked(3, made.raised(KEY)),
            made.hooked(2, made.raised(made.PEER)),
            made.hooked(1, made.raised(made.PEER)),
            made.closed(700),
            made.noticed(1, 701, 1),
            made.hosted(made.table((1, 1, 1, 701), errors={1: made.PEER}), "c1"),
        )
    )

    assert verdict.initiator.rank == 3
    assert verdict.initiator.host is None


def test_two_failures_of_torchrun_in_one_console_are_of_two_agents() -> None:
    envelope = made.agent_raised(
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "
    )
    verdict = made.judged(
        made.console(
            made.hooked(1, made.raised(KEY)),
            made.closed(701),
            made.noticed(0, 700, 1),
            envelope,
            made.hosted(made.table((0, 0, 1, 700), errors={0: made.PEER})[1:], "c1"),
            envelope,
        )
    )

    assert verdict.initiator.host is None


def test_of_two_launches_the_one_that_worked_and_failed_last_answers() -> None:
    verdict = made.judged(
        made.console(
            made.hooked(0, made.raised(KEY)),
            made.noticed(0, 700, 1),
            made.table((0, 0, 1, 700)),
            WORK,
            made.noticed(0, 900, -11, agent=91),
            made.table((0, 0, -11, 900)),
        ),
        ACCOUNT,
    )

    assert sure_cause(verdict) != "python.exception"
    assert verdict.cause.id == "process.segfault"
