"""A cause in words, and what a quoted line adds to them."""

from __future__ import annotations

import time

import pytest

from firstfault.judge import phrases
from firstfault.report.causes import causes

WHOLE = ("slurm.", "unknown", "none")


@pytest.mark.parametrize("cause", [c.id for c in causes() if not c.id.startswith(WHOLE)])
def test_each_cause_has_a_phrase_without_its_id(cause: str) -> None:
    said = phrases.phrase(cause)

    assert cause not in said
    assert said[0].islower()


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("was killed", "were killed"),
        ("ended itself with exit code 3", "ended themselves with exit code 3"),
        ("crashed after its work was done", "crashed after their work was done"),
        ("fails", "fails"),
    ],
)
def test_a_phrase_of_one_process_is_said_of_several(one: str, many: str) -> None:
    assert phrases.plural(one) == many


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("bad shape\nand more", "bad shape"),
        ("[enforce fail at alloc_cpu.cpp:75] err == 0. no memory", "no memory"),
        ("[enforce fail at ../a/b/device.cc:80] ifa != nullptr. no address", "no address"),
        ("[/a/gloo/transport/tcp/pair.cc:553] Connection closed", "Connection closed"),
        ("[enforce fail at a.cc:1] x == y", "x == y"),
        ("x" * 130, "x" * 120 + " …"),
        ("word " * 40, "word " * 23 + "word …"),
    ],
)
def test_a_message_is_shortened_to_what_tells_something(message: str, said: str) -> None:
    assert phrases.shortened(message) == said


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["[a.cc:81] Timed out waiting 20000ms for recv operation to complete"], " 20 s"),
        (["Rank 3 failed to pass monitoredBarrier in 6000 ms"], " 6 s"),
        (
            [
                "WorkNCCL(SeqNum=17, OpType=ALLREDUCE, x) ran for 600029 milliseconds before timing out"
            ],
            " 600 s in ALLREDUCE 17",
        ),
        (["WorkNCCL(OpType=BROADCAST, TensorShape=[1])"], " in BROADCAST"),
        (["Timed out waiting 20000ms", "Timed out waiting 30000ms"], ""),
        (["nothing"], ""),
    ],
)
def test_how_long_and_in_what_ranks_waited_is_told_where_their_words_agree(
    texts: list[str], said: str
) -> None:
    assert phrases.waiting(texts) == said


def test_a_program_that_refuses_its_options_is_named_with_its_words() -> None:
    line = "[rank1]: train.py: error: unrecognized arguments: --lrr 3"

    assert phrases.refusal(line) == ("train.py", "unrecognized arguments: --lrr 3")
    assert phrases.refusal("nothing of that kind") is None


def test_a_message_that_does_not_tell_the_cause_stands_after_words_that_do() -> None:
    opaque = phrases.raised("storage.corrupt", "_pickle.UnpicklingError", "invalid load key, 'v'.")
    clear = phrases.raised("storage.full", "OSError", "[Errno 28] No space left on device")

    assert opaque == "read a truncated or corrupt file (UnpicklingError: invalid load key, 'v'.)"
    assert clear == "raised OSError: [Errno 28] No space left on device"


@pytest.mark.parametrize("part", ["a: error: ", "WorkNCCL(", "[x:1] ", "Timed out waiting 1"])
def test_a_hostile_line_costs_little(part: str) -> None:
    text = part * (65536 // len(part))
    start = time.process_time()
    phrases.shortened(text)
    phrases.refusal(text)
    phrases.waiting([text])

    assert time.process_time() - start < 2
