"""What a verdict says beside its cause is so."""

from __future__ import annotations

import msgspec
import pytest

from firstfault.diagnosis import diagnose
from firstfault.judge.decide import Judgement
from firstfault.judge.verdict import assemble
from firstfault.model import verdict as v
from firstfault.model.fault import Fault
from firstfault.runs.told import told as read
from tests.diagnosis import made
from tests.diagnosis.case_files import NAMES, case


@pytest.mark.parametrize("name", NAMES)
def test_a_verdict_holds_together(name: str) -> None:
    verdict = diagnose(case(name))
    who = verdict.initiator

    assert (verdict.cause.confidence == v.UNKNOWN) == (verdict.cause.id == "unknown")
    assert not (who.candidates and who.rank is not None)
    for link in verdict.chain:
        assert link.evidence is None or link.evidence < len(verdict.evidence)
        assert link.role in ("cause", "consequence", "context")
        if link.earliest is not None and link.latest is not None:
            assert link.earliest <= link.latest
    ranks = [rank for row in verdict.consequences if row.ranks for rank in row.ranks.split(",")]
    if verdict.cause.confidence == v.CONFIRMED and who.rank is not None:
        assert str(who.rank) not in ranks


@pytest.mark.parametrize("name", ["live-killed", "live-time-limit", "live-segfault"])
def test_coverage_speaks_of_the_jobs_nodes_though_their_kernel_log_names_others(name: str) -> None:
    verdict = diagnose(case(name))

    assert [row.kernel for row in verdict.coverage] == ["full"]
    assert verdict.coverage[0].hosts in ("n[1-2]", "n[3-4]")


def test_a_silent_node_leaves_the_number_of_ranks_open() -> None:
    verdict = diagnose(case("live-node-fail"))

    assert verdict.job.nodes == 2
    assert verdict.job.ranks is None
    assert verdict.coverage[-1].note == "no record came from this node"


@pytest.mark.parametrize("name", ["t24-hang", "s113-torchrun-oom", "s113-array"])
def test_ranks_that_may_not_be_all_are_not_counted_as_the_jobs(name: str) -> None:
    assert diagnose(case(name)).job.ranks is None


@pytest.mark.parametrize(("name", "ranks"), [("t24-kill-self", 2), ("exc", 6), ("live-oom-4n", 8)])
def test_the_jobs_ranks_are_counted_where_all_are_seen(name: str, ranks: int) -> None:
    assert diagnose(case(name)).job.ranks == ranks


def test_who_held_the_memory_is_noted() -> None:
    (note,) = [n for n in diagnose(case("oom-4n")).notes if n.startswith("The kernel's table")]

    assert "on n4: python3 (pid 11744) 1760 MiB" in note


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "t24-state-dict",
            'The message of rank 0 goes on: Missing key(s) in state_dict: "aux.weight"',
        ),
        (
            "t24-unused",
            "rank 1 goes on: Parameter indices which did not receive grad for rank 1: 2 3",
        ),
    ],
)
def test_what_a_long_message_says_of_the_case_is_noted(name: str, words: str) -> None:
    assert any(words in note for note in diagnose(case(name)).notes)


def test_nodes_that_failed_alike_are_all_named() -> None:
    def down(host: str) -> Fault:
        return Fault("node.kernel", "x", host=host, facts=(("sign", "kernel.oops"),))

    told = msgspec.structs.replace(read(case("oom-4n")), runs=())
    judgement = Judgement("node.kernel", v.LIKELY, v.LIKELY, (down("n1"), down("n2")))
    verdict = assemble(told, None, judgement, (), (), "system", v.Remedy())

    assert verdict.cause.title == "2 nodes (n[1-2]) had a fault in their kernel (oops)"
    assert verdict.initiator.host == "n1"
    assert verdict.initiator.also == (v.Member(None, "n2"),)


def test_a_node_failed_before_slurm_noticed_it() -> None:
    first = diagnose(case("live-node-fail")).chain[0]

    assert first.earliest is None
    assert first.latest is not None


def test_every_rank_that_failed_alike_has_a_line_of_its_own() -> None:
    verdict = diagnose(case("import_all"))

    assert [link.evidence for link in verdict.chain[:4]] == [0, 1, 2, 3]


def test_no_sign_of_a_failure_is_not_told_as_success() -> None:
    verdict = made.judged(made.console(["step 1 loss 0.1"]))

    assert verdict.cause.id == "none"
    assert verdict.cause.title == "No sign of a failure in this evidence"


def test_another_jobs_output_is_left_out_and_said() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.noticed(0, 700, -11), made.table((0, 0, -11, 700))),
            made.task_ended("c1", 0),
            ["srun: launch/slurm: _step_signal: Terminating StepId=500.0"],
        ),
        made.document(
            "old.out",
            [
                *made.of_task(0, made.of_rank(0, 0, made.raised("KeyError: 'mask'"))),
                "srun: launch/slurm: _step_signal: Terminating StepId=499.0",
            ],
        ),
        made.accounting("FAILED"),
    )

    assert verdict.cause.id == "process.segfault"
    assert verdict.cause.confidence == v.CONFIRMED
    assert verdict.notes == ("old.out is the output of job 499: it was left out.",)


def test_outputs_of_two_jobs_and_nothing_that_says_which_is_meant_make_nothing_sure() -> None:
    verdict = made.judged(
        made.console(["srun: launch/slurm: _step_signal: Terminating StepId=500.0"]),
        made.document(
            "old.out",
            [
                *made.of_task(0, made.of_rank(0, 0, made.raised("KeyError: 'mask'"))),
                "srun: launch/slurm: _step_signal: Terminating StepId=499.0",
            ],
        ),
    )

    assert verdict.cause.confidence != v.CONFIRMED
    assert verdict.initiator.confidence != v.CONFIRMED
