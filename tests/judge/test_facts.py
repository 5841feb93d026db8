"""What is advised holds the case's own values, and fits where the job ran."""

from __future__ import annotations

import pytest

from firstfault.diagnosis import diagnose
from firstfault.judge.decide import Judgement
from firstfault.judge.facts import facts_of
from firstfault.model import verdict as v
from firstfault.model.event import PodEnd
from firstfault.model.fault import Fault
from firstfault.model.line import Place
from firstfault.model.run import Happened, Run
from firstfault.runs.told import told
from tests.diagnosis.case_files import case


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("t113-port", "29500"),
        ("t20-refused", "10.1.0.11"),
        ("t27-no-script", "/home/alice/train/trian.py"),
        ("hang", "rank 2"),
        ("s24-time-limit", "afterany:2590017"),
        ("t113-oom-kernel", "user's slice"),
        ("oom-4n", "--mem "),
        ("made-pod-oom", "resources.limits.memory"),
        ("s24-cancelled-no-console", "root cancelled it"),
    ],
)
def test_advice_holds_the_facts_of_its_case(name: str, words: str) -> None:
    assert any(words in said for said in diagnose(case(name)).remedy.do)


@pytest.mark.parametrize("name", ["t24-missing-one", "t24-disk-write", "t24-import-one"])
def test_without_slurm_no_command_is_slurms(name: str) -> None:
    commands = diagnose(case(name)).remedy.commands

    assert commands
    assert not any(command.startswith(("srun", "sacct", "scontrol")) for command in commands)


@pytest.mark.parametrize("name", ["fnf", "import_one"])
def test_under_slurm_a_node_is_looked_at_through_it(name: str) -> None:
    assert any(
        command.startswith("srun -w n2 ") for command in diagnose(case(name)).remedy.commands
    )


def test_a_pod_is_no_host_to_log_in_to() -> None:
    place = Place("pods.json", 0, 1, "...")
    end = PodEnd(place, None, "train-worker-1", "OOMKilled", node="c7")
    run = Run(0, (), (Happened(end, None, "kubernetes"),), False)
    fault = Fault("process.killed", "x", host="train-worker-1", facts=(("node", "c7"),))

    known = facts_of(
        told(case("t24-missing-one")), run, Judgement("x", v.LIKELY, v.LIKELY, (fault,))
    )

    assert known["pod"] == "train-worker-1"
    assert known["host"] == "c7"
    assert "kubectl logs --previous train-worker-1" in known["kept"]
