"""One rank's words beside another's end that they do not explain, and words of other launchers."""

from __future__ import annotations

import json

import pytest

from firstfault.model import verdict as v
from tests.diagnosis import made
from tests.diagnosis.made import WORK, sure_cause, sure_rank

KEY = "KeyError: 'mask'"
GONE = "RuntimeError: partner 1 is gone"
ACCOUNT = made.accounting("FAILED", nodes="c1")
TWO_NODES = made.accounting("FAILED")
ENDED = made.task_ended("c1", 0)
WATCHDOG = (
    "[E1130 10:00:01.000000 ProcessGroupNCCL.cpp:700] [Rank 0] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for "
    "600052 milliseconds before timing out."
)


def of_zero(*parts: list[str], code: int = 1) -> list[str]:
    """What rank 0 said and its agent's word of its end."""
    return [
        *made.of_task(0, *parts, made.noticed(0, 700, code), made.table((0, 0, code, 700))),
        *ENDED,
    ]


def own(error: str) -> list[str]:
    """An exception of rank 0 that was not caught."""
    return made.of_rank(0, 0, made.raised(error, 99))


@pytest.mark.parametrize(
    "how",
    [
        "Killed",
        "Segmentation fault",
        "Aborted",
        "Bus error",
        "Out Of Memory",
        "Exited with exit code 7",
    ],
)
def test_an_exception_does_not_explain_how_another_nodes_task_ended(how: str) -> None:
    verdict = made.judged(
        made.console(of_zero(own(GONE)), made.task_ended("c2", 1, how)), TWO_NODES
    )

    assert sure_rank(verdict) is None


@pytest.mark.parametrize("how", ["Exited with exit code 1", "Terminated"])
def test_an_exception_explains_that_another_nodes_agent_failed_or_was_ended(how: str) -> None:
    verdict = made.judged(made.console(of_zero(own(KEY)), made.task_ended("c2", 1, how)), TWO_NODES)

    assert sure_cause(verdict) == "python.exception"
    assert sure_rank(verdict) == 0


def test_a_kill_after_srun_ended_the_step_takes_nothing_from_an_exception() -> None:
    verdict = made.judged(
        made.console(
            of_zero(own(KEY)),
            ["srun: Job step aborted: Waiting up to 32 seconds for job step to finish."],
            made.task_ended("c2", 1, "Killed"),
        ),
        TWO_NODES,
    )

    assert sure_cause(verdict) == "python.exception"
    assert sure_rank(verdict) == 0


@pytest.mark.parametrize("error", [GONE, "OSError: link is down", "Exception: stop"])
def test_a_general_error_beside_a_silent_node_may_be_for_what_befell_that(error: str) -> None:
    verdict = made.judged(made.console(of_zero(own(error))), TWO_NODES, absent=("c2",))

    assert sure_cause(verdict) is None
    assert sure_rank(verdict) is None


def test_a_programming_error_beside_a_silent_node_is_sure() -> None:
    verdict = made.judged(made.console(of_zero(own(KEY))), TWO_NODES, absent=("c2",))

    assert sure_cause(verdict) == "python.exception"


@pytest.mark.parametrize("code", [-9, -11, -6, -7, 3])
def test_an_exception_and_another_nodes_end_that_nothing_orders_are_not_sure(code: int) -> None:
    verdict = made.judged(
        made.console(
            of_zero(own(GONE)),
            made.of_task(1, made.noticed(0, 800, code, agent=91), made.table((2, 0, code, 800))),
            made.task_ended("c2", 1),
        ),
        TWO_NODES,
    )

    assert sure_rank(verdict) is None


@pytest.mark.parametrize("code", [-9, -11, 3])
def test_an_exception_and_another_nodes_end_of_which_one_line_is_left(code: int) -> None:
    verdict = made.judged(
        made.console(
            of_zero(own(GONE)),
            made.of_task(1, made.noticed(0, 800, code, agent=91)),
            made.task_ended("c2", 1),
        ),
        TWO_NODES,
    )

    assert sure_rank(verdict) is None


@pytest.mark.parametrize("lost", [made.raised(made.PEER), [WATCHDOG]])
def test_what_a_rank_raises_after_it_lost_its_peer_is_not_surely_its_own(lost: list[str]) -> None:
    verdict = made.judged(
        made.console(of_zero(made.of_rank(0, None, lost), own("RuntimeError: cannot save"))),
        TWO_NODES,
    )

    assert sure_cause(verdict) is None
    assert sure_rank(verdict) is None


@pytest.mark.parametrize(
    "link",
    [
        "During handling of the above exception, another exception occurred:",
        "The above exception was the direct cause of the following exception:",
    ],
)
def test_an_exception_that_led_from_a_lost_peer_is_not_surely_the_ranks_own(link: str) -> None:
    chain = [*made.raised(made.PEER), "", link, "", *made.raised("TrainerError: step failed", 99)]
    verdict = made.judged(made.console(of_zero(made.of_rank(0, 0, chain))), TWO_NODES)

    assert sure_cause(verdict) is None
    assert sure_rank(verdict) is None


def test_a_rank_that_lost_its_peer_does_not_hide_the_one_that_failed() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.of_rank(0, None, made.raised(made.PEER)),
                own("RuntimeError: cannot save"),
                made.of_rank(1, 1, made.raised(KEY)),
                made.noticed(1, 701, 1),
                made.table((1, 1, 1, 701), (0, 0, 1, 700)),
            ),
            ENDED,
        ),
        ACCOUNT,
    )

    assert sure_cause(verdict) == "python.exception"
    assert sure_rank(verdict) == 1


def test_two_faults_of_one_host_whose_times_tell_no_order_are_not_ordered() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.noticed(0, 700, 1), made.table((0, 0, 1, 700), (1, 1, -11, 701))),
            ENDED,
        ),
        made.document(
            "c1/r_a/attempt_0/0/error.json", made.error_json(GONE, 1796032804), host="c1"
        ),
        ACCOUNT,
    )

    assert sure_rank(verdict) is None


def test_open_mpis_word_that_a_rank_prints_is_not_mpiruns() -> None:
    word = (
        "mpirun noticed that process rank 3 with PID 77 on node c4 exited on signal 11 "
        "(Segmentation fault)."
    )
    verdict = made.judged(made.console(of_zero(made.of_rank(0, 0, [word]))), ACCOUNT)

    assert verdict.initiator.rank != 3
    assert verdict.cause.id != "process.segfault"


SPAWNED = (
    "torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with signal SIGSEGV"
)


def test_a_spawned_processs_index_is_no_rank_where_there_are_several_nodes() -> None:
    verdict = made.judged(
        made.console(made.of_task(1, made.raised(SPAWNED)), made.task_ended("c2", 1)), TWO_NODES
    )

    assert verdict.initiator.rank is None


def test_a_process_that_a_rank_spawned_is_no_rank() -> None:
    verdict = made.judged(made.console(of_zero(made.of_rank(0, 0, made.raised(SPAWNED)))), ACCOUNT)

    assert verdict.initiator.rank != 2


FINISHED = "Training complete!"


@pytest.mark.parametrize("code", [-6, -11])
def test_another_ranks_word_that_the_work_was_done_says_nothing_of_a_crash(code: int) -> None:
    verdict = made.judged(
        made.console(of_zero(made.of_rank(1, 1, [FINISHED]), made.of_rank(0, 0, WORK), code=code)),
        ACCOUNT,
    )

    assert sure_cause(verdict) != "process.abort-at-exit"


@pytest.mark.parametrize(
    "last",
    [
        [FINISHED, "running evaluation on 5 sets"],
        ["Training finished for fold 1 of 5"],
        ["Finished pretraining, starting evaluation"],
        ["Epoch 3 complete!"],
    ],
)
def test_a_crash_after_a_part_of_the_work_is_no_crash_at_exit(last: list[str]) -> None:
    verdict = made.judged(
        made.console(made.noticed(0, 700, -11), made.table((0, 0, -11, 700))),
        made.document("r_x/attempt_0/0/stdout.log", [*WORK, *last], host="c1"),
        ACCOUNT,
    )

    assert sure_cause(verdict) != "process.abort-at-exit"


def test_a_kill_after_the_work_is_no_crash_at_exit() -> None:
    verdict = made.judged(
        made.console(made.noticed(0, 700, -9), made.table((0, 0, -9, 700))),
        made.document("r_x/attempt_0/0/stdout.log", [*WORK, FINISHED], host="c1"),
        ACCOUNT,
    )

    assert verdict.cause.id == "process.killed"
    assert verdict.cause.confidence == v.LIKELY


def pod(*containers: dict[str, object]) -> list[str]:
    """A pod's status."""
    found = {
        "kind": "Pod",
        "metadata": {"name": "train-0"},
        "spec": {"nodeName": "x1"},
        "status": {"containerStatuses": list(containers)},
    }
    return [json.dumps(found)]


OOM = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
ERROR = {"terminated": {"reason": "Error", "exitCode": 1}}


@pytest.mark.parametrize(
    "containers",
    [
        [{"name": "main", "lastState": OOM, "state": ERROR}],
        [{"name": "logger", "state": OOM}, {"name": "main", "state": ERROR}],
    ],
)
def test_a_kill_of_an_earlier_container_or_of_a_sidecar_is_not_the_ranks_end(
    containers: list[dict[str, object]],
) -> None:
    said = [
        *made.hooked(0, made.raised(KEY)),
        *made.noticed(0, 700, 1),
        *made.table((0, 0, 1, 700)),
    ]
    verdict = made.judged(
        made.console([f"[pod/train-0/main] {line}" for line in said]),
        made.document("pod.json", pod(*containers)),
    )

    assert sure_cause(verdict) != "memory.cgroup-oom"


def test_a_panic_of_another_node_is_not_the_failed_nodes() -> None:
    panic = ["3,1,900000000,-;Kernel panic - not syncing: Fatal exception"]
    verdict = made.judged(
        made.console(WORK, ["srun: error: Node failure on c2"]), made.kernel_log("c9", panic)
    )

    assert verdict.cause.id != "node.kernel"


def test_a_panic_that_a_rank_prints_is_nobodys() -> None:
    panic = made.of_rank(0, 0, ["[  900.000000] Kernel panic - not syncing: Fatal exception"])
    verdict = made.judged(
        made.console(made.of_task(0, panic), ["srun: error: Node failure on c2"]),
        made.accounting("NODE_FAIL", "0:0"),
    )

    assert verdict.cause.id == "slurm.node-fail"


def test_an_oops_that_names_a_rank_which_its_agent_killed_is_not_sure() -> None:
    oops = [
        "3,1,900000000,-;BUG: kernel NULL pointer dereference, address: 0000000000000008",
        "3,2,900000001,-;Oops: 0002 [#1] SMP",
        "3,3,900000002,-;CPU: 3 PID: 700 Comm: python3 Tainted: G",
    ]
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.of_rank(1, 1, WORK),
                made.closed(700),
                made.forced(700),
                made.noticed(1, 701, 4),
                made.table((1, 1, 4, 701), (0, 0, -9, 700)),
            ),
            ENDED,
        ),
        made.kernel_log("c1", oops),
        ACCOUNT,
    )

    assert sure_cause(verdict) is None
    assert sure_rank(verdict) is None
