"""What Kubernetes' words on pods are worth."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from tests.diagnosis import made
from tests.readers.test_kubernetes import DESCRIBED, EVENTS, EVICTED, PODS, WIDE


def judged(text: str, *more: list[str]) -> v.Verdict:
    documents = [made.document("pod.txt", text.split("\n"))]
    return made.judged(*documents, *(made.console(lines) for lines in more))


@pytest.mark.parametrize(
    ("text", "cause", "confidence", "host"),
    [
        (DESCRIBED, "memory.cgroup-oom", v.CONFIRMED, "loop-worker-3"),
        (DESCRIBED.replace("OOMKilled", "Error"), "process.killed", v.LIKELY, "loop-worker-3"),
        (DESCRIBED.replace("137", "1"), "memory.cgroup-oom", v.LIKELY, "loop-worker-3"),
        (DESCRIBED.replace("OOMKilled", "Error").replace("137", "1"), "unknown", v.UNKNOWN, None),
        (EVICTED, "memory.host-oom", v.CONFIRMED, "loop-worker-3"),
        (PODS, "memory.cgroup-oom", v.CONFIRMED, "loop-worker-1"),
        (WIDE, "slurm.launch", v.CONFIRMED, "loop-worker-1"),
        (EVENTS.replace("SystemOOM", "Rebooted"), "storage.full", v.CONFIRMED, "loop-worker-1"),
    ],
)
def test_a_pods_end(text: str, cause: str, confidence: str, host: str | None) -> None:
    verdict = judged(text)

    assert (verdict.cause.id, verdict.cause.confidence) == (cause, confidence)
    assert verdict.initiator.host == host


def test_the_node_is_told_beside_the_pod() -> None:
    assert "loop-worker-3" in judged(DESCRIBED).cause.title


def test_the_first_process_of_a_pod_that_was_killed_is_joined_to_its_rank() -> None:
    table = made.table((3, 0, -9, 700))
    lines = [each.replace("localhost", "loop-worker-3") for each in table]
    verdict = judged(DESCRIBED, [*made.noticed(0, 700, -9), *lines])

    assert (verdict.cause.id, verdict.initiator.rank) == ("memory.cgroup-oom", 3)
