"""Asking pyslurm in a process of its own: a package of recorded jobs stands in for it."""

from __future__ import annotations

import datetime as dt
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from firstfault.app.accounting import Either
from firstfault.model.slurm import ExitCode
from firstfault.slurm import library
from firstfault.slurm.facts import FactsError, is_final
from firstfault.slurm.library import Library
from tests.slurm.fake import FakeSlurm
from tests.slurm.pyslurm_standin import PyslurmStandIn

ENDED_AT = dt.datetime.fromtimestamp(1796054012, dt.UTC)


@pytest.fixture
def pyslurm(tmp_path: Path) -> PyslurmStandIn:
    return PyslurmStandIn(tmp_path)


@pytest.fixture
def asked(pyslurm: PyslurmStandIn) -> Iterator[Library]:
    made = Library(20, argv=pyslurm.argv)
    yield made
    made.close()


def test_recorded_jobs_come_as_facts(asked: Library) -> None:
    found = asked.facts(["2", "1", "99"])

    assert sorted(found) == ["1", "2"]
    (first,), (second,) = found["1"], found["2"]
    assert (first.id, first.raw_id, first.cluster, first.user) == ("1", "1", "testcluster", "alice")
    assert (first.state, first.exit_code) == ("FAILED", ExitCode(1, 0))
    assert first.derived_exit_code == ExitCode(0, 125)
    assert (first.nodes, first.time_limit_s, first.restarts) == ("n[1-2]", 300, 0)
    assert (first.ended_at, first.reason) == (ENDED_AT, None)
    assert first.stdout == "/home/alice/train/oom25-1.out"
    assert [(step.id, step.state) for step in first.steps] == [
        ("0", "OUT_OF_MEMORY"),
        ("batch", "FAILED"),
        ("extern", "COMPLETED"),
    ]
    assert second.exit_code == ExitCode(15, 0)
    assert is_final(first)


def test_a_window_gives_bad_ends_only(pyslurm: PyslurmStandIn, asked: Library) -> None:
    pyslurm.jobs["1"]["state"] = "COMPLETED"
    pyslurm.know(pyslurm.jobs)
    day = dt.timedelta(days=1)

    found = asked.ended(ENDED_AT - day, ENDED_AT + day)

    assert [facts.id for facts in found] == ["2"]
    assert asked.ended(ENDED_AT + day, ENDED_AT + 2 * day) == []


def test_a_job_of_which_accounting_has_the_end_alone_is_not_known_yet(
    pyslurm: PyslurmStandIn, asked: Library
) -> None:
    pyslurm.jobs["1"] |= {"name": "allocation", "user_name": "root", "user_id": 0}
    pyslurm.jobs["1"] |= {"partition": None, "account": None}
    pyslurm.know(pyslurm.jobs)
    day = dt.timedelta(days=1)

    assert list(asked.facts(["1", "2"])) == ["2"]
    ended = {facts.id: facts.user for facts in asked.ended(ENDED_AT - day, ENDED_AT + day)}
    assert ended == {"1": None, "2": "alice"}


def test_tasks_of_arrays_and_components_are_named_as_sacct_names_them(
    pyslurm: PyslurmStandIn, asked: Library
) -> None:
    pyslurm.jobs["1"] |= {"array_id": 7, "array_task_id": 0}
    pyslurm.jobs["2"] |= {"heterogeneous_id": 1, "heterogeneous_offset": 1}
    pyslurm.know(pyslurm.jobs)

    found = asked.facts(["1", "2"])

    assert (found["1"][0].id, found["2"][0].id) == ("7_0", "1+1")


def test_the_gpus_of_all_components_are_the_leaders(
    pyslurm: PyslurmStandIn, asked: Library
) -> None:
    started = pyslurm.jobs["1"]["start_time"]
    for number, gpus in (("1", {}), ("2", {"gpu": 2, "gpu:a100": 2})):
        pyslurm.jobs[number] |= {
            "heterogeneous_id": 1,
            # as pyslurm has it: the leader's is missing
            "heterogeneous_offset": int(number) - 1 or None,
            "start_time": started,
            "allocated_tres": {"gres": gpus},
        }
    pyslurm.know(pyslurm.jobs)
    pyslurm.behave("components")

    found = asked.facts(["1"])

    assert list(found) == ["1"]
    assert found["1"][0].gpus == 2


def test_the_first_task_of_an_array_is_named_though_its_number_is_lost(
    pyslurm: PyslurmStandIn, asked: Library
) -> None:
    pyslurm.jobs["1"] |= {"array_id": 7, "array_task_id": None, "nodelist": "None assigned"}
    pyslurm.know(pyslurm.jobs)

    (first,) = asked.facts(["1"])["1"]
    assert (first.id, first.nodes) == ("7_0", None)


def test_a_steps_output_is_what_its_command_line_says(
    pyslurm: PyslurmStandIn, asked: Library
) -> None:
    step = {"submit_command": "srun -o s-%j-%t.out ./x", "standard_output": "/home/s-1-0.out"}
    pyslurm.jobs["1"]["steps"]["0"] |= step
    pyslurm.know(pyslurm.jobs)

    assert asked.facts(["1"])["1"][0].steps[0].stdout == "/home/alice/train/s-1-%t.out"


def test_a_job_that_pyslurm_stumbles_over_costs_no_other(
    pyslurm: PyslurmStandIn, asked: Library
) -> None:
    pyslurm.behave("stumble 1")
    sacct = FakeSlurm()

    assert sorted(asked.facts(["1", "2", "3"])) == ["2"]
    assert sorted(Either(asked, sacct).facts(["1", "2"])) == ["2"]
    assert sacct.asked == [["1"]]


def test_who_cancelled_is_told_by_uid(pyslurm: PyslurmStandIn, asked: Library) -> None:
    pyslurm.jobs["1"] |= {"state": "CANCELLED", "cancelled_by": "root"}
    pyslurm.know(pyslurm.jobs)

    assert asked.facts(["1"])["1"][0].by_uid == 0


def test_one_process_answers_many_questions(pyslurm: PyslurmStandIn, asked: Library) -> None:
    for _ in range(5):
        asked.facts(["1"])

    assert len(pyslurm.pids()) == 1


def test_the_process_is_replaced_after_a_number_of_questions(
    pyslurm: PyslurmStandIn, asked: Library
) -> None:
    for _ in range(library.QUESTIONS + 1):
        asked.facts(["1"])

    assert len(pyslurm.pids()) == 2
    assert not _is_alive(pyslurm.pids()[0])


def test_a_library_that_ends_its_process_is_told_with_what_it_said(
    pyslurm: PyslurmStandIn, asked: Library
) -> None:
    pyslurm.behave("exit 7")
    with pytest.raises(FactsError, match=r"by itself \(7\): fatal: Could not establish"):
        asked.facts(["1"])

    pyslurm.behave("ok")
    assert "1" in asked.facts(["1"])


def test_a_library_that_hangs_is_killed_and_started_anew(pyslurm: PyslurmStandIn) -> None:
    asked = Library(1, argv=pyslurm.argv)
    pyslurm.behave("hang")
    begun = time.monotonic()

    with pytest.raises(FactsError, match=r"no answer after 1 s"):
        asked.facts(["1"])

    assert time.monotonic() - begun < 60
    assert not _is_alive(pyslurm.pids()[0])
    asked.close()


def test_a_killed_process_is_replaced(pyslurm: PyslurmStandIn, asked: Library) -> None:
    asked.facts(["1"])
    os.kill(pyslurm.pids()[-1], signal.SIGKILL)

    with pytest.raises(FactsError, match=r"ended by itself \(-9\)"):
        asked.facts(["1"])
    assert "1" in asked.facts(["1"])


def test_slurmdbd_that_is_away_is_told_and_asked_again(
    pyslurm: PyslurmStandIn, asked: Library
) -> None:
    pyslurm.behave("fail")
    with pytest.raises(FactsError, match=r"RPCError: Failed to get Jobs from slurmdbd\. Is"):
        asked.facts(["1"])

    pyslurm.behave("ok")
    assert "1" in asked.facts(["1"])
    assert len(pyslurm.pids()) == 1


def test_what_the_library_prints_is_no_answer(pyslurm: PyslurmStandIn, asked: Library) -> None:
    pyslurm.behave("chatter")

    assert sorted(asked.facts(["1", "2"])) == ["1", "2"]


def test_an_answer_without_end_is_cut_off(pyslurm: PyslurmStandIn, asked: Library) -> None:
    pyslurm.behave("huge")

    with pytest.raises(FactsError, match="more than 67108864 bytes"):
        asked.ended(ENDED_AT, ENDED_AT)


def test_a_users_long_text_is_cut(pyslurm: PyslurmStandIn, asked: Library) -> None:
    pyslurm.jobs["1"]["name"] = "x" * 1_000_000
    pyslurm.know(pyslurm.jobs)

    assert asked.facts(["1"])["1"][0].name == "x" * 4096


def test_a_pyslurm_that_is_not_installed_is_told() -> None:
    asked = Library(20, argv=("/usr/bin/python3", "-I", "-S", str(library.PROGRAM)))

    with pytest.raises(FactsError, match="No module named 'pyslurm'"):
        asked.facts(["1"])
    asked.close()


def test_a_job_id_that_is_not_a_number_is_refused(asked: Library) -> None:
    with pytest.raises(FactsError, match="not a job id"):
        asked.facts(["--help"])


def test_sacct_answers_while_pyslurm_does_not(pyslurm: PyslurmStandIn, asked: Library) -> None:
    sacct = FakeSlurm()
    sacct.known["1"] = asked.facts(["1"])["1"]
    either = Either(asked, sacct)
    assert either.facts(["1"]) == sacct.known
    assert sacct.asked == []

    pyslurm.behave("exit 1")

    assert either.facts(["1"]) == sacct.known
    pyslurm.behave("ok")
    assert either.facts(["1"]) == sacct.known
    assert sacct.asked == [["1"], ["1"]]


def test_sacct_is_asked_for_the_ends_before_a_requeue(
    pyslurm: PyslurmStandIn, asked: Library
) -> None:
    pyslurm.jobs["2"]["requeue_count"] = 1
    pyslurm.know(pyslurm.jobs)
    sacct = FakeSlurm()
    sacct.known["2"] = [*asked.facts(["1"])["1"], *asked.facts(["2"])["2"]]

    found = Either(asked, sacct).facts(["1", "2"])

    assert sacct.asked == [["2"]]
    assert len(found["1"]) == 1
    assert len(found["2"]) == 2


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"
