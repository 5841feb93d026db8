"""How to have each rank's words next time is told for the launcher that ran the job."""

from __future__ import annotations

import pytest

from firstfault.diagnosis import diagnose
from firstfault.judge import keeping
from firstfault.model.case import Case
from firstfault.model.run import Run
from firstfault.runs.told import told
from tests.diagnosis import made
from tests.diagnosis.case_files import case


def last_run(name: str) -> Run:
    return told(case(name)).runs[-1]


@pytest.mark.parametrize(
    ("name", "launcher"),
    [
        ("t113-exception", "old torchrun"),
        ("t20-abort", "old torchrun"),
        ("t24-exception", "torchrun"),
        ("exc", "torchrun"),
        ("s24-tasks-exception", "srun"),
        ("t24-spawn", "spawn"),
        ("t24-lightning-killed", "lightning"),
    ],
)
def test_a_launcher_is_told_by_its_words(name: str, launcher: str) -> None:
    assert keeping.launcher(last_run(name)) == launcher


@pytest.mark.parametrize(
    ("line", "launcher"),
    [
        ("mpirun noticed that process rank 7 with PID 0 on node c4 exited on signal 9 (Killed).",
         "mpirun"),
        ("[2026-11-30 10:00:00,000] [ERROR] [launch.py:321:sigkill_handler] ['python3', 'a.py'] exits "
         "with return code = 1", "deepspeed"),
    ],
)  # fmt: skip
def test_other_launchers_are_told_apart(line: str, launcher: str) -> None:
    run = told(Case((made.document("out.log", [line]),))).runs[-1]

    assert keeping.launcher(run) == launcher


def test_torch_1_takes_only_an_underscore() -> None:
    assert "--log_dir " in keeping.kept("old torchrun")
    assert "--log-dir " in keeping.kept("torchrun")


def test_a_pod_that_is_known_is_named() -> None:
    assert (
        keeping.kept("kubernetes", ("train-worker-1",)) == "kubectl logs --previous train-worker-1."
    )
    assert " POD for each pod" in keeping.kept("kubernetes", ("a", "b"))


def test_slurms_account_is_asked_for_by_the_jobs_number() -> None:
    hung = made.judged(made.console(made.cancelled("STEP 500.0", "c1")))
    (account,) = [m for m in hung.missing if m.what == "Slurm's account of the job"]

    assert account.how_to_get.startswith("sacct -P -j 500 ")


def test_where_nothing_speaks_of_slurm_its_account_is_asked_for_under_a_condition() -> None:
    found = diagnose(case("t24-agent-sigterm-consoles")).missing
    (account,) = [each for each in found if each.what == "Slurm's account of the job"]

    assert account.how_to_get.startswith("If the job ran under Slurm: sacct -P -j JOBID ")


def test_agents_that_waited_ask_for_the_output_of_those_that_did_not_come() -> None:
    found = [each.what for each in diagnose(case("rdzv_timeout")).missing]

    assert found == ["the launchers' output of the nodes that did not join"]
