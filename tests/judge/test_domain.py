"""Who can act is told as narrowly as the evidence allows."""

from __future__ import annotations

import msgspec

from firstfault.judge.decide import Judgement
from firstfault.judge.domain import domain
from firstfault.model.fault import Fault
from tests.judge.test_decide import fault, proof, rank, told


def judged(one: Fault) -> Judgement:
    return Judgement(one.cause, "confirmed", "unknown", (one,))


def with_line(cause: str, text: str) -> Fault:
    return msgspec.structs.replace(fault(cause, rank(0)), proofs=(proof(text),))


def test_a_cause_that_is_one_sides_stays_so() -> None:
    assert domain(told(), judged(with_line("storage.quota", "prolog")), "user") == "user"


def test_a_script_that_is_not_there_is_its_owners() -> None:
    line = "slurmstepd: error: execve(): train.py: No such file or directory"

    assert domain(told(), judged(with_line("slurm.launch", line)), "either") == "user"


def test_a_prolog_that_fails_is_the_administrators() -> None:
    line = "srun: error: Prolog failed on node c1"

    assert domain(told(), judged(with_line("slurm.launch", line)), "either") == "system"


def test_a_node_whose_own_processes_filled_it_is_the_owners() -> None:
    one = fault("memory.host-oom", rank(0), facts=(("held_by", "job"),))

    assert domain(told(), judged(one), "either") == "user"


def test_a_node_that_others_filled_is_the_administrators() -> None:
    one = fault("memory.host-oom", rank(0), facts=(("held_by", "others"),))

    assert domain(told(), judged(one), "either") == "system"


def test_nodes_that_never_came_are_the_administrators() -> None:
    silent = msgspec.structs.replace(told(), absent=("c2",))

    assert domain(silent, judged(fault("rendezvous.timeout", None)), "either") == "system"


def test_where_nothing_tells_either_may_have_to_act() -> None:
    assert domain(told(), judged(fault("process.killed")), "either") == "either"
