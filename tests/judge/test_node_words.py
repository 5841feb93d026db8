"""What befell a node, in words."""

from __future__ import annotations

import pytest
from msgspec import structs

from firstfault.judge.node_words import limit_words, node_words
from firstfault.model.fault import Fault
from firstfault.model.run import Process
from firstfault.signatures import signatures


def fault(**facts: str) -> Fault:
    return Fault("node.kernel", "node.kernel", facts=tuple(facts.items()))


@pytest.mark.parametrize("name", [each.signature.id for each in signatures("kernel")])
def test_each_sign_has_its_words(name: str) -> None:
    words = node_words(fault(sign=name))

    assert words
    assert not {"[", "]", "{", "}"} & set(words)


def test_a_fact_stands_in_the_words_where_it_is_known() -> None:
    known = fault(sign="kernel.hung-task", seconds="120", module="NFS", command="python3")
    ranks = structs.replace(known, process=Process(0, rank=3))

    assert node_words(known) == "had a task blocked for more than 120 s in NFS: python3"
    assert node_words(ranks) == "was blocked for more than 120 s in NFS"
    assert node_words(fault(sign="kernel.hung-task")) == "had a task blocked"


def test_a_fault_without_a_sign_has_no_such_words() -> None:
    assert node_words(fault()) is None


@pytest.mark.parametrize(
    ("level", "words"), [("pod", "the pod's"), ("job", "the job's"), (None, "the job's")]
)
def test_a_limit_is_whose_its_cgroup_is(level: str | None, words: str) -> None:
    assert limit_words(fault(**({"limit_of": level} if level else {}))) == words
