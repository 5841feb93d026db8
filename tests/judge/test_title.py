"""A verdict's title says in one line who it was and what happened."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from firstfault.diagnosis import diagnose
from firstfault.judge.title import happened, title
from firstfault.model.fault import Fault, Proof
from firstfault.model.line import Place
from firstfault.model.run import Process
from tests.diagnosis.case_files import NAMES, case


@pytest.mark.parametrize("name", NAMES)
def test_a_title_is_one_line_and_never_a_causes_id(name: str) -> None:
    verdict = diagnose(case(name))
    title = verdict.cause.title

    assert "\n" not in title
    assert len(title) < 260
    assert (
        verdict.cause.id == "unknown" or verdict.cause.id == "none" or verdict.cause.id not in title
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hang", "Rank 2 on n2 did not arrive at a collective; the others waited 20 s in vain"),
        ("made-watchdog-stuck", "Rank 3 on n2 was stuck for 480 s, and nothing tells in what"),
        ("made-pod-oom", "Pod llm-worker-1 was killed by the kernel: a memory limit was full"),
        ("t24-hang", "Rank 0 waited 10 s in vain for others; no evidence tells for whom"),
        ("t113-agent-sigint", "The job's launcher was told to stop from outside (SIGINT)"),
        ("t24-abort-at-exit", "Rank 1 on n1 crashed while shutting down, after its work was done"),
        (
            "t213-abort-at-exit",
            "2 ranks (rank 0 on n1 is the lowest) crashed while shutting down, after their work was"
            " done",
        ),
        ("t113-shm", "A DataLoader worker of rank 1 on n2 ran out of shared memory (/dev/shm)"),
        (
            "t24-arguments",
            "Rank 0 on n1 refused its command line or configuration: unrecognized arguments: "
            "--learning-rate 0.1",
        ),
        (
            "t27-launcher-arguments",
            "torchrun refused its command line or configuration: unrecognized arguments: "
            "--rdzv-endpont=n1:29500",
        ),
        ("t113-unresolvable", "The rendezvous host gpu-head.invalid could not be reached"),
        ("t113-port", "Port 29500 of the rendezvous or of its store was taken"),
        (
            "t27-no-script",
            "2 ranks (rank 0 on n1 is the lowest) did not find a file that it needs: "
            "/home/alice/train/trian.py",
        ),
        (
            "t113-interface",
            "2 ranks (rank 0 on n1 is the lowest) raised RuntimeError: Unable to find address for: "
            "ib7",
        ),
    ],
)
def test_a_title_holds_the_facts_of_its_case(name: str, said: str) -> None:
    assert diagnose(case(name)).cause.title == said


@pytest.mark.parametrize(
    ("ranks", "who"),
    [([], "Ranks"), ([3], "Rank 3"), ([0, 1, 2, 5], "Ranks 0-2,5"), (range(0, 90, 2), "45 ranks")],
)
def test_those_who_lost_a_peer_are_numbered_in_a_few_words(ranks: Sequence[int], who: str) -> None:
    said = title("collective.peer-lost", (), unordered=False, sure=False, hit=ranks)

    assert said.startswith(f"{who} lost a peer; ")


def test_processes_that_ended_alike_for_no_known_reason_are_counted() -> None:
    ends = tuple(
        Fault("process.exit", "x", Process(0, rank), "n1", facts=(("exit_code", "1"),))
        for rank in (2, 3)
    )
    said = title("unknown", ends, unordered=True, sure=False)

    assert said == "2 processes ended with exit code 1; the evidence does not tell why"


def test_of_faults_that_cannot_be_ordered_one_is_named_and_that_said() -> None:
    one = Fault("process.segfault", "x", Process(0, 3), "n2")
    worker = Fault("process.killed", "y", Process(0, 1), "n1", facts=(("worker", "77"),))

    def said(first: Fault, other: Fault) -> str:
        return title(first.cause, (first, other), unordered=True, sure=False).partition(" (")[0]

    assert said(one, worker) == (
        "It cannot be told what failed first; rank 3 on n2 died of a segmentation fault"
    )
    assert said(worker, one) == (
        "It cannot be told what failed first; a DataLoader worker of rank 1 on n1 was killed"
    )


def test_what_a_gpu_suffered_is_said_of_the_gpu_where_no_process_is_known() -> None:
    lost = Fault("gpu.bus-lost", "x", host="c3", sources=frozenset({"kernel"}))

    assert happened(lost) == "a GPU fell off the bus or does not answer"


def test_a_task_that_is_no_rank_is_named_as_a_task() -> None:
    line = Proof(Place("a.out", 9, 0, "srun: error: n2: task 1: Killed"), "job output", "n2")
    killed = Fault("process.killed", "x", host="n2", proofs=(line,))
    texts = [line.place.text]

    said = title("process.killed", (killed,), unordered=False, sure=False, texts=texts)

    assert said == "Task 1 on n2 was killed (SIGKILL); nothing tells who sent it"
    assert happened(killed) == "task 1 was killed (SIGKILL); nothing tells who sent it"


def test_a_step_of_the_time_line_without_a_rank_says_who() -> None:
    told = Fault("process.interrupted", "x", sources=frozenset({"agent"}))

    assert happened(told) == "the job's launcher was told to stop from outside"
