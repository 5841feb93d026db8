"""What Slurm did to a job, and what it could not start: how much each word of it is worth."""

from __future__ import annotations

import pytest

from firstfault.diagnosis import diagnose
from firstfault.model import verdict as v
from firstfault.model.case import Case, NodeCoverage
from firstfault.model.document import Document
from firstfault.model.evidence import Coverage
from tests.diagnosis import made

EXECVE = "slurmstepd-c1: error: execve(): torchrunn: No such file or directory"
NOT_FOUND = "/var/spool/slurmd/job00500/slurm_script: line 9: torchrunn: command not found"
STEP = "srun: error: Unable to create step for job 500: More processors requested than permitted"
POLL = (
    "slurmstepd: error: StepId=500.0 exceeded memory limit (9000000000 > 8000000000), being killed"
)
PREEMPTED = " DUE TO PREEMPTION"
ABORTED = "srun: Job step aborted: Waiting up to 32 seconds for job step to finish."


def controller(*messages: str) -> v.Verdict | object:
    return made.document(
        "slurmctld.log",
        [
            "[2026-11-30T09:00:00.000] sched: Allocate JobId=500 NodeList=c[1-2] #CPUs=2 Partition=main",
            *(f"[2026-11-30T10:00:00.000] {message}" for message in messages),
        ],
    )


def judged(*documents: object) -> tuple[str, str, str | None]:
    verdict = made.judged(*documents)  # type: ignore[arg-type]
    return verdict.cause.id, verdict.cause.confidence, verdict.initiator.host


def told_of(exit_status: int) -> Document:
    lines = ["SLURM_SCRIPT_CONTEXT=epilog_slurmd", "SLURMD_NODENAME=n1", "SLURM_JOB_ID=500"]
    return made.document("n1.txt", [*lines, f"SLURM_JOB_EXIT_CODE={exit_status}"])


@pytest.mark.parametrize(
    ("lines", "state", "expected"),
    [
        # srun agrees, on the same node
        ([EXECVE, "srun: error: c1: task 0: Exited with exit code 2"], None, ("confirmed", None)),
        # accounting agrees
        ([EXECVE, "bye"], ("FAILED", "2:0"), ("confirmed", None)),
        # nothing else was ever printed
        ([STEP], None, ("confirmed", None)),
        (["sbatch: error: Batch job submission failed: Invalid qos"], None, ("confirmed", None)),
        # the program went on: it may have printed the line
        ([EXECVE, "step 1", "step 2"], None, ("possible", None)),
        # the shell's word and the script's own exit status
        (["step", NOT_FOUND, "bye"], ("FAILED", "127:0"), ("confirmed", None)),
        ([NOT_FOUND], None, ("likely", None)),
        ([NOT_FOUND, "bye"], ("FAILED", "1:0"), ("possible", None)),
    ],
)
def test_what_could_not_be_started_is_worth(
    lines: list[str], state: tuple[str, str] | None, expected: tuple[str, str | None]
) -> None:
    accounts = [made.accounting(*state, step="FAILED")] if state else []

    assert judged(made.console(lines), *accounts) == ("slurm.launch", *expected)


def test_a_command_that_was_not_found_in_a_job_that_succeeded_is_no_failure() -> None:
    verdict = made.judged(
        made.console([NOT_FOUND, "step 1", "done"]), made.accounting("COMPLETED", "0:0")
    )

    assert verdict.cause.id == "none"


def test_a_command_that_was_not_found_explains_no_exception() -> None:
    lines = [
        NOT_FOUND,
        *made.of_rank(0, 0, made.raised("ZeroDivisionError: division by zero")),
        *made.noticed(0, 700, 1),
        *made.table((0, 0, 1, 700), errors={0: "ZeroDivisionError: division by zero"}),
    ]
    verdict = made.judged(made.console(lines), made.accounting("FAILED", "1:0"))

    assert verdict.cause.id == "python.exception"


def test_a_batch_script_that_slurm_could_not_start_has_an_exit_code_of_its_own() -> None:
    assert judged(made.accounting("FAILED", "0:53"))[:2] == ("slurm.launch", v.CONFIRMED)


def test_before_accounting_answers_the_node_knows_that_the_batch_script_never_started() -> None:
    end = told_of(4021)

    assert judged(end)[:2] == ("slurm.launch", v.LIKELY)
    assert judged(told_of(53))[0] != "slurm.launch"


def test_the_missing_folder_of_the_output_is_named_and_is_the_owners() -> None:
    row = Coverage("job-output", "none", "/home/u/gone/out.txt", "no-folder")
    verdict = diagnose(Case((told_of(4021),), coverage=(NodeCoverage("n1", (row,)),)))

    assert verdict.cause.title == "The folder /home/u/gone of the job's output was not found"
    assert verdict.cause.domain == "user"


def test_a_batch_script_that_died_of_another_signal_was_started() -> None:
    assert judged(made.accounting("FAILED", "0:10"))[0] != "slurm.launch"


def test_an_exit_code_of_127_in_saccts_text_alone_may_be_255() -> None:
    assert judged(made.accounting("FAILED", "127:0"))[0] == "unknown"


@pytest.mark.parametrize(
    ("lines", "confidence"),
    [
        ([POLL, "srun: error: c1: task 0: Killed"], v.CONFIRMED),
        ([POLL, *made.cancelled("STEP 500.0", "c1")], v.CONFIRMED),
        ([POLL.replace("error: ", ""), *made.cancelled("JOB 500", "c1")], v.CONFIRMED),
        ([POLL, "step 2"], v.LIKELY),
    ],
)
def test_a_memory_poll_is_sure_where_the_step_died(lines: list[str], confidence: str) -> None:
    assert judged(made.console(lines))[:2] == ("slurm.memory-poll", confidence)


@pytest.mark.parametrize(
    ("documents", "confidence"),
    [
        ([made.console(made.cancelled("JOB 500", "c1", PREEMPTED), ["step 2"])], v.LIKELY),
        ([made.console(made.cancelled("JOB 500", "c1", PREEMPTED), [ABORTED])], v.CONFIRMED),
        ([made.accounting("PREEMPTED", "0:0")], v.CONFIRMED),
        ([controller("preempted JobId=500 has been killed to reclaim resources for JobId=501")], v.LIKELY),
        (
            [
                made.console(made.cancelled("JOB 500", "c1", PREEMPTED), ["step 2"]),
                controller("preempted JobId=500 has been requeued"),
            ],
            v.CONFIRMED,
        ),
    ],
)  # fmt: skip
def test_a_preemption_is_sure_where_two_agree(documents: list[object], confidence: str) -> None:
    assert judged(*documents)[:2] == ("slurm.preempted", confidence)


def test_the_controller_names_the_node_that_failed() -> None:
    found = judged(
        made.accounting("NODE_FAIL", "0:0"),
        controller(
            "Killing JobId=500 on failed node c2", "error: Nodes c2 not responding, setting DOWN"
        ),
    )

    assert found == ("slurm.node-fail", v.CONFIRMED, "c2")


@pytest.mark.parametrize(
    ("failed", "expected"),
    [
        ("c2", ("slurm.boot-fail", v.CONFIRMED, "c2")),
        ("c1", ("slurm.node-fail", v.CONFIRMED, "c1")),
    ],
)
def test_a_node_that_did_not_boot_explains_its_failure_and_no_other_nodes(
    failed: str, expected: tuple[str, str, str]
) -> None:
    found = judged(
        made.accounting("NODE_FAIL", "0:0"),
        controller(
            "node c2 not resumed by ResumeTimeout(600), setting DOWN and POWERED_DOWN",
            f"Killing JobId=500 on failed node {failed}",
        ),
    )

    assert found == expected


def test_another_jobs_notes_count_for_nothing() -> None:
    found = judged(
        made.console(["step 1"]),
        made.accounting("FAILED", "1:0"),
        controller("Killing JobId=499 on failed node c9", "Time limit exhausted for JobId=501"),
    )

    assert found[0] == "unknown"


def test_a_node_that_is_down_alone_is_no_reason() -> None:
    found = judged(
        made.accounting("FAILED", "1:0"), controller("error: Nodes c2 not responding, setting DOWN")
    )

    assert found[0] == "unknown"


def test_the_controller_says_who_cancelled() -> None:
    verdict = made.judged(
        made.console(made.cancelled("JOB 500", "c1")),
        controller("_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=500 uid 0"),  # type: ignore[arg-type]
    )

    assert (verdict.cause.id, verdict.cause.confidence) == ("slurm.cancelled", v.CONFIRMED)
    assert "root" in verdict.cause.title


def test_a_signal_that_was_sent_is_no_cancellation() -> None:
    found = judged(
        made.accounting("FAILED", "0:10"),
        controller("_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=500 uid 1001"),
    )

    assert found[0] != "slurm.cancelled"


def test_a_step_that_was_cancelled_and_nothing_else_is_a_possible_cancellation() -> None:
    lines = [*made.cancelled("STEP 500.0", "c1"), ABORTED, "srun: error: c1: task 0: Killed"]

    assert judged(made.console(lines))[:2] == ("slurm.cancelled", v.POSSIBLE)


def test_a_step_that_srun_itself_ended_was_not_cancelled() -> None:
    lines = [
        "srun: error: c2: task 1: Exited with exit code 7",
        "srun: launch/slurm: _step_signal: Terminating StepId=500.0",
        *made.cancelled("STEP 500.0", "c1"),
        "srun: error: c1: task 0: Terminated",
    ]

    assert judged(made.console(lines))[0] != "slurm.cancelled"


def test_a_task_that_left_early_is_told_by_srun() -> None:
    lines = [
        "srun: First task exited 30s ago",
        "srun: StepId=500.0 task 0: running",
        "srun: StepId=500.0 task 1: exited",
        "srun: launch/slurm: _step_signal: Terminating StepId=500.0",
        *made.cancelled("STEP 500.0", "c1"),
        "srun: error: c1: task 0: Killed",
    ]

    assert judged(made.console(lines))[:2] == ("process.left-early", v.LIKELY)


def test_a_person_at_sruns_terminal_interrupted_it() -> None:
    lines = [
        "srun: interrupt (one more within 1 sec to abort)",
        "srun: StepId=500.0 task 0: running",
        "srun: sending Ctrl-C to StepId=500.0",
        "srun: forcing job termination",
        ABORTED,
    ]

    assert judged(made.console(lines))[:2] == ("process.interrupted", v.CONFIRMED)


def test_slurmds_log_tells_of_an_oom_kill() -> None:
    log = made.document(
        "slurmd.log",
        [
            "[2026-11-30T10:00:00.000] [500.0] error: Detected 1 oom_kill event in StepId=500.0. Some "
            "of the step tasks have been OOM Killed.",
            "[2026-11-30T10:00:00.000] [500.0] done with step",
        ],
        host="c2",
    )

    assert judged(log) == ("memory.cgroup-oom", v.LIKELY, "c2")


def test_a_requeued_job_that_waits_again_is_answered_by_the_life_that_ended() -> None:
    rows = [
        "JobID|State|ExitCode|NodeList|Submit|Start|End",
        "500|NODE_FAIL|0:0|c[1-2]|2026-11-30T09:00:00|2026-11-30T09:00:01|2026-11-30T10:00:00",
        "500|PENDING|0:0|None assigned|2026-11-30T10:00:02|Unknown|Unknown",
    ]

    assert judged(made.document("sacct.txt", rows))[:2] == ("slurm.node-fail", v.CONFIRMED)


def test_a_rank_cannot_speak_for_slurm() -> None:
    lines = [f"[default0]:{line}" for line in (EXECVE, POLL, *made.cancelled("JOB 500", "c1"))]

    assert judged(made.console(lines))[0] in ("none", "unknown")


def test_a_missing_working_directory_explains_what_was_not_found_in_it() -> None:
    lines = [
        "slurmstepd: error: couldn't chdir to `/scratch/eve': No such file or directory: going to "
        "/tmp instead",
        "srun: error: c1: task 0: Exited with exit code 2",
    ]

    assert judged(made.console(lines))[:2] == ("slurm.launch", v.LIKELY)


def test_a_command_that_was_not_found_and_good_output_are_no_failure() -> None:
    steps = [f"step {number} loss 0.3" for number in range(200)]

    assert judged(made.console([NOT_FOUND, *steps, "done"]))[0] == "none"


@pytest.mark.parametrize(
    "note", ["_job_complete: JobId=499 WEXITSTATUS 1", "Time limit exhausted for JobId=499"]
)
def test_a_healthy_jobs_output_beside_the_controllers_log_is_healthy(note: str) -> None:
    output = made.console(["step 1", "done"])

    assert judged(output, made.accounting("COMPLETED", "0:0"), controller(note))[0] == "none"


def test_a_container_whose_start_was_killed_for_memory_failed_for_that() -> None:
    lines = [
        "slurmstepd: error: pyxis: couldn't start container",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=500.0. Some of the step tasks have been OOM Killed.",
        "srun: error: c1: task 0: Out Of Memory",
    ]

    assert judged(made.console(lines)) == ("memory.cgroup-oom", v.CONFIRMED, "c1")


@pytest.mark.parametrize(("nodes", "host"), [("c1", "c1"), ("c[1-2]", None)])
def test_the_node_of_a_program_that_is_not_there_is_named_where_the_job_has_no_other(
    nodes: str, host: str | None
) -> None:
    lines = [EXECVE, "srun: error: c1: task 0: Exited with exit code 2"]

    assert judged(made.console(lines), made.accounting("FAILED", "2:0", nodes=nodes))[2] == host


def test_the_node_is_named_where_srun_names_it() -> None:
    lines = [
        "srun: error: Task launch for StepId=500.0 failed on node c7: Invalid job credential",
        "srun: error: Application launch failed: Invalid job credential",
        ABORTED,
    ]

    assert judged(made.console(lines)) == ("slurm.launch", v.CONFIRMED, "c7")
