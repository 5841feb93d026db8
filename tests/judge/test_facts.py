"""What is advised holds the case's own values, and fits where the job ran."""

from __future__ import annotations

import msgspec
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


def test_the_command_that_drains_a_node_is_ready_where_it_is_surely_the_one() -> None:
    commands = diagnose(case("made-panic")).remedy.commands

    assert (
        "scontrol update nodename=n2 state=drain reason='node.kernel, job 7181 (firstfault)'"
        in commands
    )


@pytest.mark.parametrize("name", ["gpu-ecc", "gpu-nvlink", "oom-4n", "hang", "t24-import-one"])
def test_no_node_is_drained_without_its_name_for_slurm_or_without_need(name: str) -> None:
    commands = diagnose(case(name)).remedy.commands

    assert not any("state=drain" in command for command in commands)


def of_card(
    host: str = "n2", *, nodes: tuple[str, ...] = ("n1", "n2"), **changes: object
) -> dict[str, str]:
    """The facts of an uncorrectable error that the kernel of ``host`` told."""
    base = told(case("s24-time-limit"))
    facts = (("gpu", "PCI:0000:3b:00"), ("sign", "kernel.gpu-ecc"))
    fault = msgspec.structs.replace(
        Fault(
            "gpu.ecc", "x", host=host, sources=frozenset({"kernel"}), facts=facts, rank_sure=False
        ),
        **changes,
    )
    judgement = Judgement("gpu.ecc", v.CONFIRMED, v.LIKELY, (fault,))
    return facts_of(msgspec.structs.replace(base, nodes=nodes), base.runs[0], judgement)


def test_a_card_is_named_as_the_vendors_tool_wants_it() -> None:
    assert of_card()["gpu"] == "0000:3b:00.0"
    assert of_card(facts=(("gpu", "0000:c1:00.0"),))["gpu"] == "0000:c1:00.0"
    assert "gpu" not in of_card(facts=(("gpu", "0; reboot"),))


def test_amds_cards_are_known_by_the_kernels_words() -> None:
    known = of_card(facts=(("gpu", "0000:c1:00.0"), ("sign", "kernel.amdgpu-uncorrected")))

    assert known["amd"] == "yes"
    assert "gpu" not in known


@pytest.mark.parametrize("host", ["n2", "n2.cluster.example"])
def test_a_node_to_drain_is_named_as_slurm_names_it(host: str) -> None:
    known = of_card(host)

    assert (known["node"], known["sure"]) == ("n2", "yes")


@pytest.mark.parametrize("host", ["n7", "N2", "ALL", "n[1-2]"])
def test_a_host_that_is_none_of_the_jobs_is_no_node_to_drain(host: str) -> None:
    known = of_card(host)

    assert "node" not in known
    assert "sure" not in known


def test_where_the_jobs_nodes_are_not_known_none_is_surely_the_one() -> None:
    known = of_card(nodes=())

    assert known["node"] == "n2"
    assert "sure" not in known


def test_a_process_that_may_be_another_makes_no_host_sure() -> None:
    assert "sure" not in of_card(sources=frozenset({"job output"}))
