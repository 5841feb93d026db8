"""Words that did not end the process that they stand near: caught, late, or another's."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from tests.diagnosis import made
from tests.diagnosis.made import sure_cause, sure_rank

THREAD = "Exception in thread Uploader:"
BROKEN = "BrokenPipeError: [Errno 32] Broken pipe"
DIVIDED = "ZeroDivisionError: division by zero"


def test_a_threads_broken_pipe_after_the_work_is_no_lost_peer() -> None:
    verdict = made.judged(made.console(["epoch 3 done", THREAD, *made.raised(BROKEN)]))

    assert verdict.cause.id == "unknown"


def test_a_threads_exception_that_work_followed_ended_nothing() -> None:
    verdict = made.judged(
        made.console(["epoch 3 loss 0.4", THREAD, *made.raised(DIVIDED), "epoch 4 loss 0.3"])
    )

    assert verdict.cause.id in ("unknown", "none")
    assert verdict.cause.confidence != v.CONFIRMED


def test_a_threads_exception_is_not_surely_what_ended_its_rank() -> None:
    verdict = made.judged(
        made.console(
            made.of_rank(0, None, [THREAD, *made.raised(DIVIDED)]),
            made.noticed(0, 700, 1),
            made.table((0, 0, 1, 700)),
        )
    )

    assert sure_cause(verdict) is None


def test_what_a_rank_raised_beside_a_thread_is_its_own() -> None:
    verdict = made.judged(
        made.console(
            made.of_rank(0, None, [*made.raised(DIVIDED), THREAD, *made.raised(BROKEN)]),
            made.noticed(0, 700, 1),
            made.table((0, 0, 1, 700)),
        )
    )

    assert verdict.cause.id == "python.exception"
    assert verdict.exception.type == "ZeroDivisionError"


@pytest.mark.parametrize(("later", "sure"), [(3, "python.exception"), (40, None)])
def test_an_exception_that_many_lines_followed_may_have_been_caught(
    later: int, sure: str | None
) -> None:
    steps = [f"moving shard {each}" for each in range(later)]
    verdict = made.judged(
        made.console(
            made.of_rank(0, None, [*made.raised(DIVIDED), *steps]),
            made.noticed(0, 700, 1),
            made.table((0, 0, 1, 700)),
        )
    )

    assert verdict.cause.id == "python.exception"
    assert sure_cause(verdict) == sure


def test_a_traceback_behind_the_table_is_not_surely_its_ranks() -> None:
    before, after = made.noticed(6, 700, 1), made.raised(DIVIDED)
    verdict = made.judged(made.console(before, made.table((6, 6, 1, 700)), after))

    assert sure_cause(verdict) is None
    assert sure_rank(verdict) is None


def test_a_traceback_before_the_table_is_its_ranks() -> None:
    verdict = made.judged(
        made.console(made.raised(DIVIDED), made.noticed(6, 700, 1), made.table((6, 6, 1, 700)))
    )

    assert sure_cause(verdict) == "python.exception"
    assert sure_rank(verdict) == 6


def losses(*values: str) -> list[str]:
    return [f"epoch 0 step {step}: loss={value}" for step, value in enumerate(values)]


NAN = losses("2.5", "nan", "nan", "nan", "nan")


def test_a_loss_that_is_nan_to_the_end_is_likely_what_went_wrong() -> None:
    verdict = made.judged(made.console(NAN))

    assert (verdict.cause.id, verdict.cause.confidence) == ("training.nan", v.LIKELY)


def test_a_job_that_succeeded_with_a_loss_of_nan_has_not_failed() -> None:
    verdict = made.judged(made.console(NAN), made.accounting("COMPLETED", code="0:0"))

    assert verdict.cause.id == "none"


def test_a_loss_of_nan_is_not_the_cause_of_another_end() -> None:
    end = [*made.raised(DIVIDED), *made.noticed(0, 700, 1), *made.table((0, 0, 1, 700))]
    verdict = made.judged(made.console(NAN, end))

    assert verdict.cause.id == "python.exception"


def test_a_loss_of_nan_is_not_surely_why_a_rank_ended_itself() -> None:
    verdict = made.judged(made.console(NAN, made.noticed(0, 700, 1), made.table((0, 0, 1, 700))))

    assert sure_cause(verdict) is None


CUDA = "CUDA out of memory. Tried to allocate 2.00 GiB"


def test_an_error_of_memory_that_the_program_went_on_after_is_no_cause() -> None:
    words = f"WARNING | fairseq.trainer | OOM: Ran out of memory with exception: {CUDA}"
    verdict = made.judged(made.console([words, *losses("2.5", "2.4")]))

    assert verdict.cause.id in ("unknown", "none")


def test_what_is_raised_after_a_batch_was_skipped_is_not_surely_the_first_fault() -> None:
    skipped = "| WARNING: ran out of memory, skipping batch"
    error = "AttributeError: 'NoneType' object has no attribute 'data'"
    verdict = made.judged(made.console([skipped, *made.raised(error)]))

    assert sure_cause(verdict) is None


def test_a_bare_killed_is_possibly_what_ended_a_job_of_which_nothing_else_is_told() -> None:
    verdict = made.judged(made.console(["epoch 3 loss 0.4", "Killed"]))

    assert (verdict.cause.id, verdict.cause.confidence) == ("process.killed", v.POSSIBLE)


def test_a_bare_killed_before_an_exception_tells_nothing() -> None:
    verdict = made.judged(made.console(["Killed", *made.raised(DIVIDED)]))

    assert verdict.cause.id == "python.exception"


def test_submitits_word_of_a_preemption_is_not_surely_slurms() -> None:
    words = "submitit WARNING (2026-11-30 10:00:00,123) - Caught signal SIGUSR2 on c1: this job is preempted."
    verdict = made.judged(
        made.console([words], made.cancelled("JOB 500", "c1", " DUE TO JOB REQUEUE"))
    )

    assert (verdict.cause.id, verdict.cause.confidence) == ("slurm.preempted", v.LIKELY)


TORCHRUN = [
    "Traceback (most recent call last):",
    '  File "/opt/venv/bin/torchrun", line 8, in <module>',
    "    sys.exit(main())",
    '  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/run.py", line 879, in main',
    "    run(args)",
]
TAKEN = (
    "[E socket.cpp:500] [c10d] The server socket has failed to listen on any local network address."
)
BOUND = (
    "[W socket.cpp:464] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - "
    "Address already in use)."
)


def test_a_port_that_is_taken_is_likely_where_torchruns_traceback_is_cut_behind_it() -> None:
    verdict = made.judged(made.console([BOUND, TAKEN, *TORCHRUN]))

    assert (verdict.cause.id, verdict.cause.confidence) == ("rendezvous.port-in-use", v.LIKELY)


def test_a_port_that_is_taken_is_no_more_than_possible_where_another_traceback_is_cut() -> None:
    verdict = made.judged(made.console([BOUND, TAKEN, *made.raised(DIVIDED)[:-1]]))

    assert verdict.cause.confidence in (v.POSSIBLE, v.UNKNOWN)


def test_argparses_word_at_the_end_is_likely_its_programs_last() -> None:
    words = ["usage: loop.py [-h] [--steps STEPS]", "loop.py: error: unrecognized arguments: -x"]

    assert made.judged(made.console(words)).cause.confidence == v.LIKELY
    assert made.judged(made.console([*words, "step 1"])).cause.confidence == v.POSSIBLE


def test_a_shells_word_of_a_kill_agrees_with_slurms_of_the_batch_step() -> None:
    shell = "/var/spool/slurmd/job500/slurm_script: line 9: 4411 Killed    python3 loop.py"
    noticed = (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=500.batch. Some of the step tasks "
        "have been OOM Killed."
    )

    assert sure_cause(made.judged(made.console([shell, noticed]))) == "memory.cgroup-oom"
    assert sure_cause(made.judged(made.console([noticed]))) is None
    assert sure_cause(made.judged(made.console([shell, noticed, "step 2", "step 3"]))) is None


def test_an_agents_own_error_comes_before_the_cancellation_of_its_job() -> None:
    store = [
        *TORCHRUN,
        '  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/elastic/rendezvous/'
        'static_tcp_rendezvous.py", line 55, in next_rendezvous',
        "    self._store = TCPStore(  # type: ignore[call-arg]",
        "RuntimeError: The server socket has failed to listen on any local network address. The "
        "server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
    ]
    after = ["srun: got SIGCONT", "one more word", "and another", "and a third"]
    verdict = made.judged(
        made.console(store, made.task_ended("c1", 0), made.cancelled("JOB 500", "c1"), after)
    )

    assert verdict.cause.id == "rendezvous.port-in-use"
    assert verdict.cause.confidence != v.CONFIRMED


def test_torchruns_own_failure_agrees_with_its_word_of_a_segfault() -> None:
    failed = [
        *TORCHRUN,
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "=" * 60,
    ]
    word = made.noticed(0, 700, -11)

    assert sure_cause(made.judged(made.console(word, failed))) == "process.segfault"
    assert sure_cause(made.judged(made.console(word))) is None


WAITED = (
    "[rank2]:[E ProcessGroupNCCL.cpp:563] [Rank 2] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=914, OpType=ALLREDUCE, NumelIn=531, NumelOut=531, Timeout(ms)=600000) ran for "
    "600123 milliseconds before timing out."
)
HOOKED = [f"[rank3]: {line}" for line in made.raised(DIVIDED)]


def test_an_uncaught_exception_whose_peers_then_waited_in_vain_ended_the_job() -> None:
    verdict = made.judged(made.console(["[rank3]: begun", *HOOKED, WAITED]))

    assert sure_cause(verdict) == "python.exception"
    assert sure_rank(verdict) == 3


def test_an_uncaught_exception_that_work_follows_need_not_have_ended_the_job() -> None:
    verdict = made.judged(made.console([*HOOKED, WAITED, "step 7 loss 0.3", "step 8 loss 0.3"]))

    assert sure_cause(verdict) is None


def test_an_uncaught_exception_whose_rank_speaks_again_need_not_have_ended_the_job() -> None:
    again = [f"[rank3]:[W10{n}] warming up again" for n in range(3)]
    verdict = made.judged(made.console([*HOOKED, *again, WAITED]))

    assert sure_cause(verdict) is None


def test_tasks_of_one_host_that_were_killed_together_are_likely_killed() -> None:
    verdict = made.judged(
        made.console(
            ["srun: error: c2: tasks 4-7: Killed"], ["srun: error: c1: tasks 0-3: Terminated"]
        )
    )

    assert (verdict.cause.id, verdict.cause.confidence) == ("process.killed", v.LIKELY)
    assert verdict.initiator.host == "c2"


def test_tasks_that_were_killed_after_their_step_was_ended_tell_nothing() -> None:
    verdict = made.judged(
        made.console(
            made.task_ended("c1", 0),
            ["srun: Job step aborted: Waiting up to 32 seconds for job step to finish."],
            ["srun: error: c2: tasks 4-7: Killed"],
        )
    )

    assert verdict.cause.id != "process.killed"


def test_a_shells_exit_code_of_a_task_tells_its_childs_signal() -> None:
    verdict = made.judged(made.console(made.task_ended("c1", 0, "Exited with exit code 139")))

    assert (verdict.cause.id, verdict.cause.confidence) == ("process.segfault", v.LIKELY)


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("srun: fatal: Can not execute loop_gpu", "slurm.launch"),
        (
            "/var/spool/slurmd/job500/slurm_script: line 66: syntax error: unexpected end of file",
            "slurm.launch",
        ),
        ("received by PID 4411", "unknown"),
        ("Process finished with exit code 137 (interrupted by signal 9: SIGKILL)", "unknown"),
    ],
)
def test_a_word_of_an_end_is_never_no_failure(words: str, cause: str) -> None:
    assert made.judged(made.console(["begun", words])).cause.id == cause


def test_an_aborted_task_that_lost_its_peer_is_not_where_it_began() -> None:
    lost = "n2:41:42 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer c1<4007>"
    verdict = made.judged(
        made.console(
            made.task_ended("c1", 0), [lost], made.task_ended("c2", 1, "Exited with exit code 134")
        )
    )

    assert verdict.cause.id != "process.abort"
    assert verdict.initiator.host != "c2"


SEGFAULT = "/home/eve/run.sh: line 277: 4411 Segmentation fault      (core dumped) python3 loop.py"


def test_a_shells_word_of_a_signal_is_likely_where_nothing_follows() -> None:
    last, followed = made.judged(made.console([SEGFAULT])), made.console([SEGFAULT, "step 3"])

    assert (last.cause.id, last.cause.confidence) == ("process.segfault", v.LIKELY)
    assert made.judged(followed).cause.confidence == v.POSSIBLE


def test_a_shells_word_beside_another_fault_tells_nothing() -> None:
    verdict = made.judged(made.console([SEGFAULT, *made.raised(DIVIDED)]))

    assert verdict.cause.id == "python.exception"


def test_a_loaders_worker_that_died_of_a_bus_error_was_not_killed() -> None:
    error = "RuntimeError: DataLoader worker (pid 4411) is killed by signal: Bus error."
    verdict = made.judged(made.console(made.raised(error)))

    assert verdict.cause.id == "process.bus-error"
    assert verdict.cause.confidence == v.POSSIBLE


@pytest.mark.parametrize(
    "word",
    [
        "falling back to the native kernels",
        "WARNING checkpoint skipped",
        "reducing the batch to 4",
        "shard 7: retrying in 5 s",
        "building the cache anew",
    ],
)
def test_an_exception_behind_which_its_program_says_that_it_goes_on_is_not_surely_the_end(
    word: str,
) -> None:
    end = [*made.noticed(0, 700, 1), *made.table((0, 0, 1, 700))]
    caught = made.of_rank(
        0, None, [*made.raised("ModuleNotFoundError: No module named 'apex'"), word]
    )
    hooked = made.of_rank(0, 0, made.raised("KeyError: 4")) + made.of_rank(0, None, [word])

    assert sure_cause(made.judged(made.console(caught, end))) is None
    assert sure_cause(made.judged(made.console(hooked, end))) == "python.exception"


LOGGED = "2026-11-30 10:00:00,000 ERROR train: giving up on shard 3"
LATER = [f"2026-11-30 10:00:0{each},000 INFO train: shard {each} read" for each in range(4, 8)]


@pytest.mark.parametrize(("later", "sure"), [(LATER, None), (LATER[:1], "storage.io-error")])
def test_an_exception_that_a_program_logged_and_that_its_log_goes_on_after_is_not_surely_the_end(
    later: list[str], sure: str | None
) -> None:
    error = made.raised("OSError: [Errno 5] Input/output error: '/data/shard-3.tar'")
    end = [*made.noticed(0, 700, 1), *made.table((0, 0, 1, 700))]
    verdict = made.judged(made.console(made.of_rank(0, None, [LOGGED, *error, *later]), end))

    assert verdict.cause.id == "storage.io-error"
    assert sure_cause(verdict) == sure


@pytest.mark.parametrize(
    ("error", "sure"),
    [
        ("AssertionError: expected no 'CUDA out of memory. Tried to allocate' in the log", None),
        ("ValueError: the test 'No space left on device' failed", None),
        (
            "OSError: [Errno 28] No space left on device: '/scratch/my run/step 4.pt'",
            "storage.full",
        ),
        ("ModuleNotFoundError: No module named 'apex'", "python.import"),
    ],
)
def test_what_an_exception_quotes_is_not_surely_what_happened(error: str, sure: str | None) -> None:
    end = [*made.noticed(0, 700, 1), *made.table((0, 0, 1, 700))]

    assert (
        sure_cause(made.judged(made.console(made.of_rank(0, 0, made.raised(error)), end))) == sure
    )


@pytest.mark.parametrize(
    ("later", "sure"), [([], "python.arguments"), (["using cached tokens"], None)]
)
def test_an_argument_parsers_word_after_which_its_rank_speaks_is_another_programs(
    later: list[str], sure: str | None
) -> None:
    words = ["usage: tokenize.py [-h]", "tokenize.py: error: unrecognized arguments: -x", *later]
    end = [*made.noticed(1, 701, 2), *made.table((1, 1, 2, 701))]

    assert sure_cause(made.judged(made.console(made.of_rank(1, None, words), end))) == sure
