"""Evidence that leads a hasty reader to the wrong rank, host or cause."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from tests.diagnosis import made
from tests.diagnosis.made import sure_cause, sure_rank


def test_torchruns_root_cause_only_lost_its_peer_and_the_culprit_stands_under_failures() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.of_rank(0, 0, made.raised(made.PEER)),
                made.of_rank(1, 1, made.raised("ZeroDivisionError: division by zero")),
                made.noticed(0, 700, 1),
                made.table(
                    (0, 0, 1, 700),
                    (1, 1, 1, 701),
                    errors={0: made.PEER, 1: "ZeroDivisionError: division by zero"},
                ),
            ),
            made.task_ended("c1", 0),
        ),
        made.accounting("FAILED", nodes="c1"),
    )

    assert sure_cause(verdict) == "python.exception"
    assert sure_rank(verdict) == 1
    assert verdict.initiator.host == "c1"
    assert verdict.exception.type == "ZeroDivisionError"


def test_what_a_rank_raised_as_its_agent_ended_it_is_not_surely_first() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.closed(700),
                made.of_rank(0, 0, made.raised("OSError: handle is gone")),
                made.noticed(1, 701, -7),
                made.table((1, 1, -7, 701), (0, 0, -15, 700)),
            ),
            made.task_ended("c1", 0),
        ),
    )

    assert sure_rank(verdict) != 0
    assert verdict.cause.id == "process.bus-error"
    assert verdict.initiator.rank == 1


def test_the_only_exception_is_of_a_rank_that_was_being_ended_and_another_gives_no_reason() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.closed(700),
                made.of_rank(0, 0, made.raised("OSError: handle is gone")),
                made.noticed(1, 701, 4),
                made.table((1, 1, 4, 701), (0, 0, 1, 700)),
            ),
            made.task_ended("c1", 0),
        ),
    )

    assert sure_cause(verdict) is None
    assert sure_rank(verdict) is None


def test_an_agents_kill_after_the_grace_time_is_nobodys_kill() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.of_rank(1, 1, made.raised("ZeroDivisionError: division by zero")),
                made.closed(700),
                made.forced(700),
                made.noticed(1, 701, 1, clock="10:00:35"),
                made.table((1, 1, 1, 701), (0, 0, -9, 700)),
            ),
            made.task_ended("c1", 0),
        ),
        kernel_read=("c1",),
    )

    assert sure_cause(verdict) == "python.exception"
    assert sure_rank(verdict) == 1
    assert "process.killed" not in {each.cause for each in verdict.alternatives}


def test_a_rank_killed_after_the_time_limit_was_killed_by_slurm() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.cancelled("STEP 500.0", "c1", made.LIMIT),
                made.agent_stopped(),
                made.noticed(0, 700, -9, clock="10:00:32"),
                made.table((0, 0, -9, 700), (1, 1, -15, 701)),
            ),
            made.task_ended("c1", 0, "Killed"),
        ),
        made.accounting("TIMEOUT", "0:0"),
        kernel_read=("c1", "c2"),
    )

    assert sure_cause(verdict) == "slurm.time-limit"
    assert verdict.initiator.rank is None


def test_an_oom_kill_of_the_same_pid_on_another_host_is_not_this_ranks() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.noticed(0, 700, -9), made.table((0, 0, -9, 700))),
            made.task_ended("c1", 0),
        ),
        made.kernel_log("c2", made.killed(700, job="77", uid=1002)),
        made.accounting("FAILED"),
    )

    assert verdict.cause.id == "process.killed"
    assert verdict.cause.confidence == v.LIKELY
    assert (verdict.initiator.rank, verdict.initiator.host) == (0, "c1")


@pytest.mark.parametrize(("job", "uid"), [("77", 1002), ("78", 1001), ("79", 0)])
def test_an_oom_kill_of_another_job_does_not_explain_a_segfault(job: str, uid: int) -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.noticed(0, 700, -11), made.table((0, 0, -11, 700))),
            made.task_ended("c1", 0),
        ),
        made.kernel_log("c1", made.killed(9000, job=job, uid=uid)),
        made.accounting("FAILED"),
    )

    assert sure_cause(verdict) == "process.segfault"
    assert sure_rank(verdict) == 0


def test_an_oom_kill_of_roots_daemon_is_not_the_jobs() -> None:
    daemon = [
        "3,5,1000000000,-;Out of memory: Killed process 311 (backupd) total-vm:9000kB, "
        "anon-rss:8000kB, file-rss:10kB, shmem-rss:0kB, UID:0 pgtables:20kB oom_score_adj:0"
    ]
    verdict = made.judged(
        made.console(
            made.of_task(0, made.noticed(0, 700, -9), made.table((0, 0, -9, 700))),
            made.task_ended("c1", 0),
        ),
        made.kernel_log("c1", daemon),
        made.accounting("FAILED"),
    )

    assert not verdict.cause.id.startswith("memory.")


def test_a_loader_worker_that_was_told_to_stop_killed_nobody() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.of_rank(
                    0,
                    0,
                    made.raised(
                        "RuntimeError: DataLoader worker (pid 811) is killed by signal: Terminated. "
                    ),
                ),
                made.of_rank(1, 1, made.raised("KeyError: 'mask'")),
                made.noticed(1, 701, 1),
                made.table((1, 1, 1, 701), (0, 0, -15, 700)),
            ),
            made.task_ended("c1", 0),
        ),
    )

    assert sure_rank(verdict) == 1
    assert verdict.exception.type == "KeyError"


def test_what_a_rank_raises_after_the_time_limit_is_not_the_cause() -> None:
    error_json = (
        '{"message": {"message": "OSError: handle is gone", "extraInfo": {"py_callstack": "Traceback '
        '(most recent call last):\\n  File \\"/home/eve/run/loop.py\\", line 3, in f\\nOSError: '
        'handle is gone\\n", "timestamp": "1796032810"}}}'
    )
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.cancelled("STEP 500.0", "c1", made.LIMIT),
                made.agent_stopped(),
                made.of_rank(0, 0, made.raised("OSError: handle is gone")),
            ),
            made.task_ended("c1", 0),
        ),
        made.document("ranks/c1/r_x/attempt_0/0/error.json", [error_json], host="c1"),
        made.accounting("TIMEOUT", "0:0"),
    )

    assert verdict.cause.id == "slurm.time-limit"
    assert verdict.initiator.rank is None


def test_a_failed_node_outweighs_an_exception_of_unknown_time_but_is_not_sure() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.of_rank(0, 0, made.raised(made.PEER))),
            made.of_task(0, made.of_rank(1, 1, made.raised("KeyError: 'mask'"))),
            made.cancelled("JOB 500", "c1", made.NODE_FAILURE),
            ["srun: error: Node failure on c2"],
        ),
        made.accounting("NODE_FAIL", "0:0"),
        absent=("c2",),
    )

    assert verdict.cause.id == "slurm.node-fail"
    assert verdict.initiator.host == "c2"
    assert verdict.cause.confidence == v.LIKELY
    assert "python.exception" in {each.cause for each in verdict.alternatives}


def test_a_caught_and_logged_exception_of_a_job_that_succeeded_is_no_failure() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.of_rank(0, None, made.raised("ValueError: retried"))),
            made.of_task(0, made.of_rank(0, None, ["step 10 loss 0.1", "done"])),
        ),
        made.accounting("COMPLETED", "0:0"),
    )

    assert verdict.cause.id == "none"
    assert verdict.cause.confidence == v.CONFIRMED


def test_a_caught_and_logged_exception_does_not_become_a_segfaults_reason() -> None:
    verdict = made.judged(
        made.console(
            made.raised("ValueError: retried"),
            ["step 10 loss 0.1"],
            made.noticed(0, 700, -11),
            made.table((0, 0, -11, 700)),
        ),
    )

    assert sure_cause(verdict) != "python.exception"


def test_everybody_was_interrupted_when_the_job_was_cancelled() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.of_rank(0, 0, made.raised("KeyboardInterrupt"))),
            made.of_task(1, made.of_rank(0, 2, made.raised("KeyboardInterrupt"))),
            made.cancelled("JOB 500", "c1"),
        ),
        made.accounting("CANCELLED by 1001", "0:0"),
    )

    assert sure_cause(verdict) == "slurm.cancelled"
    assert verdict.initiator.rank is None


def test_two_exceptions_at_unknown_times_are_not_ordered() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.of_rank(0, 0, made.raised("KeyError: 'mask'", 10))),
            made.of_task(1, made.of_rank(0, 2, made.raised("ZeroDivisionError: by zero", 20))),
            made.task_ended("c1", 0),
            made.task_ended("c2", 1),
        ),
        made.accounting("FAILED"),
    )

    assert verdict.cause.confidence == v.POSSIBLE
    assert verdict.initiator.rank is None
    assert {(m.rank, m.host) for m in verdict.initiator.candidates} == {(0, "c1"), (2, "c2")}


def test_of_two_ranks_killed_on_one_host_the_kernel_tells_which_was_first() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.noticed(0, 700, -9),
                made.table((0, 0, -9, 700), (1, 1, -9, 701)),
            ),
            made.task_ended("c1", 0, "Out Of Memory"),
        ),
        made.kernel_log("c1", made.killed(701, at_s=1000), made.killed(700, at_s=1009)),
    )

    assert sure_cause(verdict) == "memory.cgroup-oom"
    assert sure_rank(verdict) == 1
    assert "ranks that failed the same way later" in {each.what for each in verdict.consequences}


def test_of_two_ranks_killed_at_one_moment_neither_is_first() -> None:
    kmsg = [*made.killed(701), *made.killed(700)]
    plain = [line.partition(";")[2] for line in kmsg]
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.noticed(0, 700, -9),
                made.table((0, 0, -9, 700), (1, 1, -9, 701)),
            ),
            made.task_ended("c1", 0, "Out Of Memory"),
        ),
        made.kernel_log("c1", plain),
    )

    assert sure_cause(verdict) == "memory.cgroup-oom"
    assert verdict.initiator.rank == 0
    assert [each.rank for each in verdict.initiator.also] == [1]


@pytest.mark.parametrize(
    "word",
    [
        "terminate called after throwing an instance of 'c10::Error'",
        "  what():  CUDA error: device-side assert triggered",
        "[rank1]:[E1130 10:00:01.000000 ProcessGroupNCCL.cpp:700] [Rank 1] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=1)",
        "c1:700:799 [0] NCCL WARN Cuda failure 'out of memory'",
    ],
)
@pytest.mark.parametrize("local", [0, 1])
def test_an_abort_with_words_of_the_gpu_or_the_network_near_it_is_not_surely_native_codes(
    word: str, local: int
) -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.of_rank(local, None, [word]),
                made.of_rank(0, None, ["Fatal Python error: Aborted", ""]),
                made.noticed(0, 700, -6),
                made.table((0, 0, -6, 700)),
            ),
            made.task_ended("c1", 0),
        ),
    )

    assert sure_cause(verdict) != "process.abort"


def test_a_segfault_at_teardown_after_an_exception_is_the_exceptions() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.of_rank(0, 0, made.raised("KeyError: 'mask'")),
                made.noticed(0, 700, -11),
                made.table((0, 0, -11, 700)),
            ),
            made.task_ended("c1", 0),
        ),
    )

    assert verdict.cause.id == "python.exception"
    assert verdict.initiator.rank == 0


def test_an_exit_code_without_a_word_is_unknown() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.noticed(0, 700, 1), made.table((0, 0, 1, 700))),
            made.task_ended("c1", 0),
        ),
        made.accounting("FAILED"),
    )

    assert verdict.cause.id == "unknown"
    assert verdict.initiator.rank == 0
    assert verdict.missing


def test_four_tables_without_labels_that_all_say_localhost_place_nobody() -> None:
    parts = []
    for agent in range(4):
        pids = (700 + 2 * agent, 701 + 2 * agent)
        parts += [
            made.noticed(0, pids[0], 1, agent=900 + agent),
            made.table((2 * agent, 0, 1, pids[0]), (2 * agent + 1, 1, -15, pids[1])),
        ]
    verdict = made.judged(
        made.console(
            made.of_rank(0, None, made.raised("KeyError: 'mask'")),
            *parts,
            *(made.task_ended(f"c{agent + 1}", agent) for agent in range(4)),
        ),
        made.accounting("FAILED", nodes="c[1-4]"),
    )

    assert sure_rank(verdict) is None
    assert verdict.initiator.host is None


def test_a_killed_task_alone_does_not_tell_who_killed_it() -> None:
    verdict = made.judged(made.console(made.task_ended("c3", 2, "Killed")))

    assert sure_cause(verdict) is None
    assert verdict.cause.id in ("unknown", "process.killed")


def test_a_step_that_was_cancelled_for_no_reason_is_unknown() -> None:
    verdict = made.judged(made.console(made.cancelled("STEP 500.0", "c1")))

    assert verdict.cause.id == "unknown"


def test_accounting_alone_that_says_out_of_memory_is_a_likely_reading() -> None:
    verdict = made.judged(made.accounting("OUT_OF_MEMORY", "0:125"))

    assert verdict.cause.id == "memory.cgroup-oom"
    assert verdict.cause.confidence == v.LIKELY
    assert verdict.initiator.rank is None


def test_accounting_that_says_failed_and_a_clean_log_are_unknown() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.of_rank(0, None, ["step 0 loss 1.0", "step 1 loss 0.9"]))
        ),
        made.accounting("FAILED"),
    )

    assert verdict.cause.id == "unknown"


def test_a_failed_step_that_the_script_hides_is_a_failure_all_the_same() -> None:
    hidden = made.accounting("COMPLETED", "0:0", step="FAILED")
    data = hidden.excerpts[0].data.replace(b"|COMPLETED|0:0|0:0|", b"|COMPLETED|0:0|1:0|")
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.of_rank(0, 0, made.raised("KeyError: 'mask'")),
                made.noticed(0, 700, 1),
                made.table((0, 0, 1, 700), errors={0: "KeyError: 'mask'"}),
            ),
            made.task_ended("c1", 0),
        ),
        made.document("sacct.txt", data.decode().splitlines()),
    )

    assert sure_cause(verdict) == "python.exception"
    assert sure_rank(verdict) == 0


def test_a_program_that_writes_an_oom_kill_into_the_kernel_log_killed_nobody() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.noticed(0, 700, -9), made.table((0, 0, -9, 700))),
            made.task_ended("c1", 0),
        ),
        made.kernel_log("c1", made.killed(700, prefix=12)),
        made.accounting("FAILED"),
    )

    assert not verdict.cause.id.startswith("memory.")


def test_a_time_limit_that_ends_the_log_is_sure_without_accounting() -> None:
    verdict = made.judged(
        made.console(["step 10 loss 0.1"], made.cancelled("JOB 500", "c1", made.LIMIT))
    )

    assert sure_cause(verdict) == "slurm.time-limit"


def test_an_agents_lost_store_is_not_a_crashed_ranks_reason() -> None:
    lost = [
        "Traceback (most recent call last):",
        '  File "/opt/venv/bin/torchrun", line 8, in <module>',
        "    sys.exit(main())",
        '  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 374, in f',
        "    result = agent.run()",
        "torch.distributed.DistNetworkError: Broken pipe",
    ]
    verdict = made.judged(
        made.console(
            made.of_task(1, lost),
            made.of_task(0, made.noticed(0, 700, -11), made.table((0, 0, -11, 700))),
            made.task_ended("c1", 0),
        ),
    )

    assert sure_cause(verdict) == "process.segfault"
    assert sure_rank(verdict) == 0


def test_the_same_pids_on_two_nodes_are_not_one_process() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(
                0,
                made.of_rank(1, 1, made.raised(made.PEER)),
                made.closed(101),
                made.noticed(1, 102, 1),
                made.table((1, 1, 1, 102), (0, 0, -15, 101)),
            ),
            made.of_task(1, made.noticed(0, 101, -11, agent=90), made.table((2, 0, -11, 101))),
            made.task_ended("c1", 0),
            made.task_ended("c2", 1),
        ),
    )

    assert sure_cause(verdict) == "process.segfault"
    assert sure_rank(verdict) == 2
    assert verdict.initiator.host == "c2"


def test_clocks_of_two_nodes_do_not_make_an_order_sure() -> None:
    def error_json(error: str, second: int) -> list[str]:
        return [
            f'{{"message": {{"message": "{error}", "extraInfo": {{"py_callstack": "Traceback (most '
            f'recent call last):\\n  File \\"/home/eve/{second}.py\\", line 3, in f\\n{error}\\n", '
            f'"timestamp": "{second}"}}}}}}'
        ]

    verdict = made.judged(
        made.document(
            "c1/r_a/attempt_0/0/error.json", error_json("KeyError: 1", 1796032000), host="c1"
        ),
        made.document(
            "c2/r_b/attempt_0/0/error.json", error_json("IndexError: 2", 1796035600), host="c2"
        ),
        made.accounting("FAILED"),
    )

    assert sure_cause(verdict) is None
    assert verdict.initiator.confidence != v.CONFIRMED
