"""How Kubernetes says that pods ended: built from kubectl's own format strings and API fields."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.model.event import PodEnd
from firstfault.readers.kind import Kind, kind
from firstfault.readers.kubernetes import pod_ends
from tests.readers.logs import document

DESCRIBED = """\
Name:             loop-worker-3
Namespace:        lab
Priority:         0
Node:             gpu-07/10.0.3.7
Start Time:       Mon, 30 Nov 2026 10:00:00 +0000
Status:           Running
IP:               10.1.2.3
Containers:
  pytorch:
    Container ID:  containerd://0123
    Command:
      torchrun
    Args:
      Reason:       Evicted
    State:          Waiting
      Reason:       CrashLoopBackOff
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
      Started:      Mon, 30 Nov 2026 10:00:05 +0000
      Finished:     Mon, 30 Nov 2026 10:10:05 +0000
    Ready:          False
    Restart Count:  2
    Environment:
      RANK:  3
Conditions:
  Type              Status
  Initialized       True
Events:
  Type     Reason   Age               From     Message
  ----     ------   ----              ----     -------
  Normal   Pulled   10m               kubelet  Container image already present on machine
  Warning  BackOff  2m (x9 over 10m)  kubelet  Back-off restarting failed container
"""
EVICTED = DESCRIBED.replace(
    "Status:           Running\n",
    "Status:           Failed\nReason:           Evicted\n"
    "Message:          The node was low on resource: memory. Threshold quantity: 100Mi.\n",
).replace("OOMKilled", "Completed")
PODS = """\
NAME            READY   STATUS      RESTARTS      AGE
loop-master-0   0/1     Error       1 (3m ago)    12m
loop-worker-0   1/1     Running     0             12m
loop-worker-1   0/1     OOMKilled   0             12m
"""
WIDE = """\
NAMESPACE   NAME            READY   STATUS             RESTARTS   AGE   IP         NODE     NOMINATED NODE   READINESS GATES
lab         loop-master-0   0/1     Error              0          12m   10.1.0.1   gpu-01   <none>           <none>
lab         loop-worker-1   0/1     ImagePullBackOff   0          12m   <none>     <none>   <none>           <none>
"""
EVENTS = """\
LAST SEEN   TYPE      REASON      OBJECT              MESSAGE
12m         Normal    Scheduled   pod/loop-worker-1   Successfully assigned lab/loop-worker-1 to gpu-02
3m          Warning   Evicted     pod/loop-worker-1   The node was low on resource: ephemeral-storage.
2m          Warning   SystemOOM   node/gpu-02         System OOM encountered, victim process: python3, pid: 4711
"""
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "loop-worker-1"},
    "spec": {"nodeName": "gpu-02"},
    "status": {
        "phase": "Failed",
        "containerStatuses": [
            {
                "name": "pytorch",
                "restartCount": 1,
                "state": {
                    "terminated": {
                        "exitCode": 137,
                        "reason": "OOMKilled",
                        "finishedAt": "2026-11-30T10:10:05Z",
                    }
                },
                "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}},
            }
        ],
    },
}


def ends(text: str) -> list[PodEnd]:
    return list(pod_ends(document(text)))


def test_a_description_tells_each_containers_bad_ends() -> None:
    waiting, killed = ends(DESCRIBED)

    assert (waiting.reason, waiting.last) == ("CrashLoopBackOff", False)
    assert (killed.pod, killed.node, killed.container) == ("loop-worker-3", "gpu-07", "pytorch")
    assert (killed.reason, killed.exit_code, killed.last) == ("OOMKilled", 137, True)
    assert killed.at is not None
    assert killed.at.latest == dt.datetime(2026, 11, 30, 10, 10, 5, tzinfo=dt.UTC)
    assert killed.place.text == "      Reason:       OOMKilled"


def test_an_eviction_is_the_pods_own_end() -> None:
    evicted = ends(EVICTED)[-1]

    assert (evicted.reason, evicted.container) == ("Evicted", None)
    assert "low on resource: memory" in (evicted.message or "")


def test_several_pods_may_be_described() -> None:
    found = ends(DESCRIBED + "\n\n" + EVICTED.replace("worker-3", "worker-4"))

    assert {end.pod for end in found} == {"loop-worker-3", "loop-worker-4"}


def test_the_table_of_pods_is_read() -> None:
    assert [(end.pod, end.reason) for end in ends(PODS)] == [
        ("loop-master-0", "Error"),
        ("loop-worker-1", "OOMKilled"),
    ]


def test_the_wide_table_names_nodes() -> None:
    assert [(end.pod, end.reason, end.node) for end in ends(WIDE)] == [
        ("loop-master-0", "Error", "gpu-01"),
        ("loop-worker-1", "ImagePullBackOff", None),
    ]


def test_events_of_pods_and_of_nodes_are_read() -> None:
    assert [(end.pod, end.node, end.reason) for end in ends(EVENTS)] == [
        ("loop-worker-1", None, "Evicted"),
        (None, "gpu-02", "SystemOOM"),
    ]


@pytest.mark.parametrize("top", [POD, {"apiVersion": "v1", "kind": "List", "items": [POD]}])
def test_json_is_read(top: dict[str, Any]) -> None:
    now, before = ends(json.dumps(top))

    assert (now.pod, now.node, now.reason, now.exit_code) == (
        "loop-worker-1",
        "gpu-02",
        "OOMKilled",
        137,
    )
    assert (now.restarts, now.last) == (1, False)
    assert (before.reason, before.exit_code, before.last) == ("Error", 1, True)


def test_json_events_are_read() -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {"kind": "Pod", "name": "loop-worker-1"},
        "reason": "Evicted",
        "message": "The node was low on resource: memory.",
        "lastTimestamp": "2026-11-30T10:10:05Z",
    }
    (end,) = ends(json.dumps({"apiVersion": "v1", "kind": "List", "items": [event]}))

    assert (end.pod, end.reason) == ("loop-worker-1", "Evicted")


@pytest.mark.parametrize("text", [DESCRIBED, PODS, WIDE, EVENTS, json.dumps(POD)])
def test_a_status_is_told_from_its_content(text: str) -> None:
    assert kind(document(text)) is Kind.KUBERNETES


@pytest.mark.parametrize(
    "text",
    [
        "Name: loop\nstep 1\n",
        "NAME READY\n",
        '{"apiVersion": "v1", "loss": 0.3}\n',
        "Reason: OOMKilled\n",
    ],
)
def test_other_text_is_no_status(text: str) -> None:
    assert kind(document(text)) is not Kind.KUBERNETES


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["status", "items", "metadata", "name", "reason", "state", "terminated", "containerStatuses", "kind", "exitCode", "finishedAt"]), inner, max_size=4),
    max_leaves=15,
)  # fmt: skip


@given(json_values)
def test_json_of_any_shape_is_read_without_an_error(value: object) -> None:
    ends(json.dumps({"kind": "List", "items": [value, {"status": value, "metadata": value}]}))


@given(st.text(max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    for head in (DESCRIBED[:420], PODS[:60], EVENTS[:60], "{"):
        ends(head + text)
