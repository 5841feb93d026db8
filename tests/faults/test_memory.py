"""Whose an OOM kill is."""

from __future__ import annotations

from firstfault.model import verdict as v
from firstfault.model.document import Document
from tests.diagnosis import made


def killed_rank() -> Document:
    return made.console(
        made.of_task(0, made.noticed(0, 700, -9), made.table((0, 0, -9, 700), (1, 1, -15, 701))),
        made.task_ended("c1", 0, "Killed"),
    )


def nameless_kill(pid: int, uid: int = 1001) -> list[str]:
    return [made.killed(pid, uid=uid)[2]]


def test_a_kill_that_names_the_job_is_joined_to_the_rank_by_its_pid() -> None:
    verdict = made.judged(
        killed_rank(), made.kernel_log("c1", made.killed(700)), made.accounting("FAILED")
    )

    assert (verdict.cause.id, verdict.cause.confidence) == ("memory.cgroup-oom", v.CONFIRMED)
    assert (verdict.initiator.rank, verdict.initiator.host) == (0, "c1")


def test_a_kill_without_a_job_is_joined_by_host_and_pid() -> None:
    verdict = made.judged(killed_rank(), made.kernel_log("c1", nameless_kill(700)))

    assert (verdict.cause.id, verdict.cause.confidence) == ("memory.cgroup-oom", v.CONFIRMED)
    assert verdict.initiator.rank == 0


def test_a_kill_of_the_same_pid_in_a_kernel_log_of_unknown_host_is_likely_the_jobs() -> None:
    verdict = made.judged(killed_rank(), made.kernel_log(None, nameless_kill(700)))

    assert (verdict.cause.id, verdict.cause.confidence) == ("memory.cgroup-oom", v.LIKELY)


def test_kills_of_the_same_user_that_nothing_joins_are_left_unexplained() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.noticed(0, 700, -11), made.table((0, 0, -11, 700))),
            made.task_ended("c1", 0),
        ),
        made.kernel_log("c1", nameless_kill(811), nameless_kill(812)),
        made.accounting("FAILED"),
    )

    assert verdict.cause.id == "process.segfault"
    assert len(verdict.unexplained) == 2


def test_a_pid_that_the_kernel_killed_for_another_job_makes_a_kill_doubtful() -> None:
    verdict = made.judged(
        killed_rank(),
        made.kernel_log("c1", made.killed(700, job="77")),
        made.accounting("FAILED"),
        kernel_read=("c1", "c2"),
    )

    assert verdict.cause.id == "process.killed"
    assert verdict.cause.confidence == v.LIKELY


def test_a_kernel_log_alone_tells_a_likely_cause() -> None:
    verdict = made.judged(made.kernel_log("c1", made.killed(700)))

    assert (verdict.cause.id, verdict.cause.confidence) == ("memory.cgroup-oom", v.LIKELY)


def test_a_kernel_log_alone_with_kills_of_two_jobs_tells_nothing_sure() -> None:
    verdict = made.judged(
        made.kernel_log("c1", made.killed(700), made.killed(811, job="77", at_s=2000))
    )

    assert verdict.cause.confidence != v.CONFIRMED


def test_slurms_two_notes_on_one_kill_are_sure_of_the_cause_without_a_rank() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                [
                    "slurmstepd-c1: error: Detected 1 oom-kill event(s) in StepId=500.0. Some of "
                    "your processes may have been killed by the cgroup out-of-memory handler."
                ],
            ),
            made.task_ended("c1", 0, "Out Of Memory"),
        )
    )

    assert (verdict.cause.id, verdict.cause.confidence) == ("memory.cgroup-oom", v.CONFIRMED)
    assert verdict.initiator.rank is None
    assert verdict.initiator.host == "c1"


def test_accounting_and_one_killed_rank_agree() -> None:
    verdict = made.judged(killed_rank(), made.accounting("OUT_OF_MEMORY", "0:125"))

    assert (verdict.cause.id, verdict.cause.confidence) == ("memory.cgroup-oom", v.CONFIRMED)
    assert verdict.initiator.rank == 0


POD = "/kubepods/burstable/pod0a1b2c3d/0123456789abcdef"


def in_pod(pid: int) -> list[str]:
    """The kernel's lines on a kill in a container, which counts its own pids."""
    return [line.replace("/slurm/uid_0/job_500", POD) for line in made.killed(pid, uid=0)]


def test_a_kill_in_a_container_is_likely_the_killed_ranks() -> None:
    verdict = made.judged(killed_rank(), made.kernel_log("c1", in_pod(41000)))

    assert (verdict.cause.id, verdict.cause.confidence) == ("memory.cgroup-oom", v.LIKELY)


def test_kills_in_two_containers_are_nobodys_in_particular() -> None:
    other = [line.replace("0a1b2c3d", "4e5f6a7b") for line in in_pod(41001)]
    verdict = made.judged(killed_rank(), made.kernel_log("c1", in_pod(41000), other))

    assert verdict.cause.id == "process.killed"


def test_a_kernel_log_alone_with_a_containers_kill_tells_a_likely_cause() -> None:
    verdict = made.judged(made.kernel_log("c1", in_pod(41000)))

    assert (verdict.cause.id, verdict.cause.confidence) == ("memory.cgroup-oom", v.LIKELY)


def test_the_title_says_whose_limit_was_full() -> None:
    lines = ["6,1,999000000,-;memory: usage 2048000kB, limit 2048000kB, failcnt 3"]
    kill = made.killed(700)
    step = [
        kill[0],
        *lines,
        kill[1].replace(
            "oom_memcg=/slurm/uid_1001/job_500", "oom_memcg=/slurm/uid_1001/job_500/step_0"
        ),
        kill[2],
    ]
    verdict = made.judged(killed_rank(), made.kernel_log("c1", step), made.accounting("FAILED"))

    assert "the step's memory limit (2,000 MiB) was full" in verdict.cause.title


def test_a_kill_in_another_boot_of_an_untimed_log_is_not_surely_the_ranks() -> None:
    boots = [
        "[    1.000000] Linux version 6.1",
        *nameless_kill(700),
        "[    1.000000] Linux version 6.1",
    ]
    log = made.document(
        "c1/dmesg.txt",
        [line.replace("3,1002,1000000020,-;", "[ 1000.000020] ") for line in boots],
        host="c1",
    )
    verdict = made.judged(killed_rank(), log)

    assert verdict.cause.confidence != v.CONFIRMED


def test_a_kill_that_stands_among_the_jobs_output_is_not_sure() -> None:
    lines = ["[ 1000.000020] " + nameless_kill(700)[0].partition(";")[2]]
    console = made.console(
        made.of_task(0, made.noticed(0, 700, -9), made.table((0, 0, -9, 700), (1, 1, -15, 701))),
        made.task_ended("c1", 0, "Killed"),
        lines,
    )
    verdict = made.judged(console, made.accounting("FAILED"))

    assert verdict.cause.confidence != v.CONFIRMED


def test_a_kernel_log_alone_with_many_kills_of_a_full_node_tells_a_likely_cause() -> None:
    full = [nameless_kill(pid, uid=0)[0].replace("Memory cgroup out", "Out") for pid in (811, 812)]
    verdict = made.judged(made.kernel_log("c1", full))

    assert (verdict.cause.id, verdict.cause.confidence) == ("memory.host-oom", v.LIKELY)
