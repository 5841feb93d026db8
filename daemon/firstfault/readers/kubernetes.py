"""How Kubernetes says that pods ended: kubectl describe, get (JSON and table) and get events.

Formats as in kubectl 1.24 to 1.32 (staging/src/k8s.io/kubectl/pkg/describe/describe.go, the pod and
event columns of pkg/printers/internalversion/printers.go) and the pod's status in the API
(core/v1 types.go). YAML is not read: ``-o json`` says the same.
"""

from __future__ import annotations

import datetime as dt
import email.utils
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from firstfault.model.document import Document
from firstfault.model.event import PodEnd
from firstfault.model.line import Place, Span
from firstfault.streams.lines import raw_lines

_NAME = re.compile(r"Name: +(?P<name>[a-z0-9][a-z0-9.-]{0,252})[ \t]*$", re.MULTILINE)
_FIELD = re.compile(r"(?P<indent> *)(?P<key>[A-Z][A-Za-z ]{0,40}):(?: +(?P<value>.{0,4096}))?$")
_CONTAINER = re.compile(r"  (?P<name>[a-z0-9][a-z0-9-]{0,62}):[ \t]*$")
_WARNING = re.compile(
    r"  Warning +(?P<reason>\w{1,60}) +(?P<age>\S{1,40}(?: \([^()]{1,60}\))?) +(?P<source>\S{1,120}) +"
    r"(?P<message>.{1,4096})$"
)
_PODS_HEADER = re.compile(r"(?:NAMESPACE +)?NAME +READY +STATUS +RESTARTS +AGE")
_EVENTS_HEADER = re.compile(r"(?:NAMESPACE +)?LAST SEEN +TYPE +REASON +OBJECT +.{0,200}MESSAGE")
_EVENT_ROW = re.compile(
    r"(?:(?!Warning|Normal)\S{1,253} +){1,2}Warning +(?P<reason>\w{1,60}) +"
    r"(?P<kind>pod|node)/(?P<name>[a-z0-9][a-z0-9.-]{0,252}) +(?P<message>.{1,4096})$"
)
_MESSAGES_OF_NOTE = frozenset(
    {"Evicted", "SystemOOM", "Preempted", "Preempting", "NodeNotReady", "TaintManagerEviction"}
)
_HEALTHY = frozenset({"Completed", "Running", "Pending", "ContainerCreating", "PodInitializing"})
_LONGEST_LINE = 16_384


def looks_like_status(head: str) -> bool:
    """Whether a text is kubectl's description of a pod, or its table of pods or of events."""
    if (
        _NAME.match(head)
        and "\nNamespace:" in head
        and re.search(r"^(?:Init )?Containers:", head, re.M)
    ):
        return True
    first = head.split("\n", 1)[0]
    return bool(_PODS_HEADER.match(first) or _EVENTS_HEADER.match(first))


def looks_like_json_status(head: str) -> bool:
    """Whether JSON that begins with ``head`` may be of the Kubernetes API."""
    return '"apiVersion"' in head and bool(re.search(r'"kind": ?"(?:Pod|List|PodList|Event)', head))


def pod_ends(document: Document) -> Iterator[PodEnd]:
    """The bad ends of pods and containers in one document, in its order."""
    start = document.excerpts[0].data[:4096].lstrip() if document.excerpts else b""
    if start.startswith(b"{"):
        yield from _of_json(document)
        return
    lines = [(place, text[:_LONGEST_LINE]) for place, text in raw_lines(document)]
    first = next((text for _, text in lines if text.strip()), "")
    if _PODS_HEADER.match(first):
        yield from _of_table(lines)
    elif _EVENTS_HEADER.match(first):
        yield from _of_events(lines)
    else:
        yield from _of_description(lines)


class _Pod:
    """What a description has said so far of one pod and of one state of one container."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: str | None = None
        self.status: dict[str, tuple[Place, str]] = {}
        self.container: str | None = None
        self.state: dict[str, str] = {}
        self.place: Place | None = None
        self.last = False

    def ended(self) -> Iterator[PodEnd]:
        """The state that was being read, if it is a bad end; it is forgotten."""
        state, place = self.state, self.place
        self.state, self.place = {}, None
        reason = state.get("Reason", "")
        code = state.get("Exit Code", "")
        if place is None or not reason or reason in _HEALTHY:
            return
        finished = _rfc_time(state.get("Finished", ""))
        yield PodEnd(
            place,
            None if finished is None else Span(None, finished),
            self.name,
            reason,
            self.node,
            self.container,
            int(code) if code.isdigit() and len(code) < 6 else None,
            state.get("Message"),
            last=self.last,
        )

    def whole(self) -> Iterator[PodEnd]:
        """The end of the pod itself, as for an eviction."""
        if "Reason" in self.status and self.status.get("Status", (None, ""))[1] != "Running":
            place, reason = self.status["Reason"]
            message = self.status.get("Message")
            yield PodEnd(
                place, None, self.name, reason, self.node, message=message[1] if message else None
            )
        self.status = {}


def _of_description(lines: Sequence[tuple[Place, str]]) -> Iterator[PodEnd]:
    pod: _Pod | None = None
    section = ""
    for place, text in lines:
        if named := _NAME.match(text):
            if pod is not None:
                yield from (*pod.ended(), *pod.whole())
            pod, section = _Pod(named["name"]), ""
            continue
        if pod is None:
            continue
        field = _FIELD.match(text)
        if text[:1] not in (" ", "") and field is not None:
            yield from pod.ended()
            section = field["key"]
            _note_status(pod, place, section, field["value"] or "")
        elif section == "Events" and (warning := _WARNING.match(text)):
            if warning["reason"] in _MESSAGES_OF_NOTE:
                yield PodEnd(
                    place, None, pod.name, warning["reason"], pod.node, message=warning["message"]
                )
        elif section in ("Containers", "Init Containers"):
            yield from _of_container(pod, place, text, field)
    if pod is not None:
        yield from (*pod.ended(), *pod.whole())


def _note_status(pod: _Pod, place: Place, key: str, value: str) -> None:
    if key == "Node" and value and value != "<none>":
        pod.node = value.partition("/")[0]
    elif key in ("Status", "Reason", "Message"):
        pod.status[key] = (place, value.strip())


def _of_container(
    pod: _Pod, place: Place, text: str, field: re.Match[str] | None
) -> Iterator[PodEnd]:
    if container := _CONTAINER.match(text):
        yield from pod.ended()
        pod.container = container["name"]
    elif field is not None and len(field["indent"]) == 4:
        yield from pod.ended()
        if field["key"] in ("State", "Last State"):
            pod.place = place
            pod.last = field["key"] == "Last State"
    elif field is not None and len(field["indent"]) == 6 and pod.place is not None:
        pod.state.setdefault(field["key"], (field["value"] or "").strip())
        if field["key"] == "Reason":
            pod.place = place


# "worker-1   0/1   Error   1 (3m ago)   5m", with a namespace before and an address and a node
# behind it where they were asked for.
def _of_table(lines: Sequence[tuple[Place, str]]) -> Iterator[PodEnd]:
    columns: dict[str, int] = {}
    for place, text in lines:
        if _PODS_HEADER.match(text):
            columns = {
                match[0]: match.start() for match in re.finditer(r"[A-Z]+(?: [A-Z]+)?", text)
            }
            continue
        if not columns:
            continue
        name, status = (_cell(text, columns, key) for key in ("NAME", "STATUS"))
        if name and status and status not in _HEALTHY and re.fullmatch(r"[\w:/-]{1,80}", status):
            node = _cell(text, columns, "NODE") or None
            yield PodEnd(place, None, name, status, None if node == "<none>" else node)


def _cell(text: str, columns: dict[str, int], key: str) -> str:
    start = columns.get(key)
    return "" if start is None else text[start:].split(" ", 1)[0].strip()


def _of_events(lines: Sequence[tuple[Place, str]]) -> Iterator[PodEnd]:
    for place, text in lines:
        row = _EVENT_ROW.match(text)
        if row is None or row["reason"] not in _MESSAGES_OF_NOTE:
            continue
        own = row["kind"] == "pod"
        yield PodEnd(
            place,
            None,
            row["name"] if own else None,
            row["reason"],
            None if own else row["name"],
            message=row["message"].strip(),
        )


def _of_json(document: Document) -> Iterator[PodEnd]:
    data = b"".join(excerpt.data for excerpt in document.excerpts)
    try:
        top = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    items = _list(_dict(top).get("items")) or [_dict(top)]
    for item in items:
        if item.get("kind") == "Event" or "involvedObject" in item:
            yield from _of_event(document, item)
        elif item.get("kind") in ("Pod", None):
            yield from _of_pod(document, item)


def _of_pod(document: Document, item: dict[str, Any]) -> Iterator[PodEnd]:
    name = _text(_dict(item.get("metadata")).get("name"))
    node = _text(_dict(item.get("spec")).get("nodeName"))
    status = _dict(item.get("status"))
    if name is None:
        return
    if reason := _text(status.get("reason")):
        message = _text(status.get("message"))
        yield PodEnd(
            _place(document, f"{name}: {reason}: {message}"),
            None,
            name,
            reason,
            node,
            message=message,
        )
    containers = [
        *_list(status.get("initContainerStatuses")),
        *_list(status.get("containerStatuses")),
    ]
    for container in containers:
        restarts = container.get("restartCount")
        for key in ("state", "lastState"):
            state = _dict(container.get(key))
            ended = _dict(state.get("terminated")) or _dict(state.get("waiting"))
            reason = _text(ended.get("reason"))
            code = ended.get("exitCode")
            if reason is None or reason in _HEALTHY:
                continue
            finished = _iso_time(ended.get("finishedAt"))
            yield PodEnd(
                _place(document, f"{name}: {key}: {reason}, exit code {code}"),
                None if finished is None else Span(None, finished),
                name,
                reason,
                node,
                _text(container.get("name")),
                code if isinstance(code, int) else None,
                _text(ended.get("message")),
                restarts if isinstance(restarts, int) else None,
                last=key == "lastState",
            )


def _of_event(document: Document, item: dict[str, Any]) -> Iterator[PodEnd]:
    about = _dict(item.get("involvedObject"))
    name, reason = _text(about.get("name")), _text(item.get("reason"))
    if reason not in _MESSAGES_OF_NOTE or name is None or about.get("kind") not in ("Pod", "Node"):
        return
    pod = name if about.get("kind") == "Pod" else None
    message = _text(item.get("message"))
    seen = _iso_time(item.get("lastTimestamp"))
    yield PodEnd(
        _place(document, f"{name}: {reason}: {message}"),
        None if seen is None else Span(None, seen),
        pod,
        reason,
        None if pod else name,
        message=message,
    )


# A JSON document is one value: what is shown of it is what was read, in words.
def _place(document: Document, text: str) -> Place:
    return Place(document.name, 0, None, text[:1000])


def _rfc_time(text: str) -> dt.datetime | None:
    try:
        return email.utils.parsedate_to_datetime(text).astimezone(dt.UTC)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _iso_time(value: object) -> dt.datetime | None:
    if not isinstance(value, str):
        return None
    try:
        at = dt.datetime.fromisoformat(value)
    except ValueError:
        return None
    return at.astimezone(dt.UTC) if at.tzinfo is not None else None


def _text(value: object) -> str | None:
    return value[:4096] if isinstance(value, str) and value else None


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
