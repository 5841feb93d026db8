"""``scontrol show job``, ``scontrol show node`` and ``seff`` as facts.

Written from src/api/job_info.c (``slurm_sprint_job_info``) and node_info.c of Slurm 20.11 to 26.05
and the outputs of a real 22.05.8, and from contribs/seff/seff. scontrol prints exit codes as they
are (sacct's text subtracts 128). A name or a comment of the user's may hold anything: the fields are
taken in the order in which Slurm prints them.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator

from firstfault.model.document import Document
from firstfault.model.event import SlurmNote
from firstfault.model.line import zone_of
from firstfault.model.slurm import ExitCode, JobFacts
from firstfault.readers import sacct
from firstfault.streams.lines import raw_lines

_RECORD = re.compile(r"^JobId=\d", re.MULTILINE)
# A key at a line's start, or after a blank on the same line.
_FIELD = re.compile(r"(?:^|[ \t])(?P<key>[A-Z][\w/:.]{1,40})=(?P<value>\S{0,4096})", re.MULTILINE)
_USER = re.compile(r"(?P<name>[^()\s]{1,256})\((?P<uid>\d{1,10})\)$")
_LONGEST_RECORD = 65_536
_LONGEST_REASON = 1_000
_NODE_RECORD = re.compile(r"^NodeName=(?P<name>[\w.-]{1,253})(?: |$)", re.MULTILINE)
_NODE_STATE = re.compile(
    r"(?:^|[ \t])State=(?P<state>[A-Z_+*~#!%$@^-]{1,200})(?: |$)", re.MULTILINE
)
# Who set a reason, and when, stands behind it.
_SET_BY = re.compile(r" ?\[[^\[\]@\s]{1,64}@\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\][ \t]*$")
_SEFF = re.compile(r"^Job ID: (?P<job>\d{1,19})[ \t]*$", re.MULTILINE)
_SEFF_ARRAY = re.compile(r"^Array Job ID: (?P<id>\d{1,19}_\d{1,9})[ \t]*$", re.MULTILINE)
_SEFF_STATE = re.compile(
    r"^State: (?P<state>[A-Z_]{3,20})(?: by (?P<uid>\d{1,10}))?(?: \(exit code (?P<code>\d{1,5})\))?",
    re.MULTILINE,
)
_SEFF_WORD = re.compile(r"^(?P<key>Cluster|User/Group): (?P<value>[^\s/]{1,256})", re.MULTILINE)
# A state that hides the one beneath: how the job ended is not told.
_HIDING = frozenset({"COMPLETING", "CONFIGURING", "STOPPED", "SIGNALING", "STAGE_OUT"})


def looks_like_scontrol_job(head: str) -> bool:
    """Whether a file that begins with ``head`` is ``scontrol show job``, in one line or many."""
    found = _RECORD.search(head)
    return found is not None and " JobState=" in head and " JobName=" in head[found.start() :]


def looks_like_scontrol_node(head: str) -> bool:
    """Whether a file that begins with ``head`` is ``scontrol show node``."""
    return _NODE_RECORD.search(head) is not None and "CPUAlloc=" in head and " State=" in head


def looks_like_seff(head: str) -> bool:
    """Whether a file that begins with ``head`` is the output of seff."""
    return _SEFF.search(head) is not None and "\nState: " in head and "\nCPU Utilized: " in head


def parse_jobs(text: str, utc_offset_s: int | None = 0) -> list[JobFacts]:
    """The jobs of ``scontrol show job``, in its order.

    ``utc_offset_s`` is local time minus UTC of who ran it (None: not known).
    """
    zone = zone_of(utc_offset_s)
    starts = [match.start() for match in _RECORD.finditer(text)]
    ends = [*starts[1:], len(text)][: len(starts)]
    return [
        _job(text[start : min(end, start + _LONGEST_RECORD)], zone)
        for start, end in zip(starts, ends, strict=True)
    ]


def parse_seff(text: str) -> list[JobFacts]:
    """The job that seff tells of, an empty list where it tells of none."""
    found, state = _SEFF.search(text), _SEFF_STATE.search(text)
    if found is None or state is None:
        return []
    words = {match["key"]: match["value"] for match in _SEFF_WORD.finditer(text)}
    array = _SEFF_ARRAY.search(text)
    code = int(state["code"] or 0)
    return [
        JobFacts(
            id=array["id"] if array else found["job"],
            raw_id=found["job"],
            cluster=words.get("Cluster"),
            user=words.get("User/Group"),
            state=_state(state["state"]),
            by_uid=None if state["uid"] is None else int(state["uid"]),
            # It prints 0 for a signal as well.
            exit_code=ExitCode(code, 0) if code else None,
        )
    ]


def node_notes(document: Document) -> Iterator[SlurmNote]:
    """A note for each node of ``scontrol show node`` that is down or failed, with its reason."""
    name = None
    down = False
    for place, text in raw_lines(document):
        if record := _NODE_RECORD.match(text):
            name, down = record["name"], False
        if state := _NODE_STATE.search(text):
            down = any(word in state["state"] for word in ("DOWN", "FAIL", "NOT_RESPONDING", "*"))
        _, found, reason = text[:_LONGEST_RECORD].rpartition(" Reason=")
        if name is not None and down and found:
            why = reason.strip()[-_LONGEST_REASON:]
            set_by = _SET_BY.search(why, max(0, len(why) - 120))
            yield SlurmNote(
                place, None, "node-down", name, reason=why[: set_by.start()] if set_by else why
            )
            name = None


def _job(record: str, zone: dt.timezone) -> JobFacts:
    fields: dict[str, str] = {}
    begun = False
    for match in _FIELD.finditer(record):
        # Before UserId stands the job's name, which may hold anything.
        begun = begun or match["key"] == "UserId"
        if begun or match["key"] in ("JobId", "ArrayJobId", "ArrayTaskId"):
            fields.setdefault(match["key"], match["value"])
    user = _USER.match(fields.get("UserId", ""))
    master, task = fields.get("ArrayJobId"), fields.get("ArrayTaskId", "")
    raw = fields.get("JobId", "")
    restarts = fields.get("Restarts", "")
    return JobFacts(
        id=f"{master}_{task}" if master and task.isdigit() else raw,
        raw_id=raw,
        user=user["name"] if user else None,
        uid=int(user["uid"]) if user else None,
        account=_text(fields, "Account"),
        partition=_text(fields, "Partition"),
        state=_state(fields.get("JobState", "")),
        reason=_text(fields, "Reason"),
        exit_code=sacct.exit_code(fields.get("ExitCode", "")),
        derived_exit_code=sacct.exit_code(fields.get("DerivedExitCode", "")),
        nodes=_text(fields, "NodeList"),
        submitted_at=sacct.moment(fields.get("SubmitTime", ""), zone),
        started_at=sacct.moment(fields.get("StartTime", ""), zone),
        ended_at=sacct.moment(fields.get("EndTime", ""), zone),
        time_limit_s=sacct.duration_s(fields.get("TimeLimit", "")),
        work_dir=_text(fields, "WorkDir"),
        restarts=int(restarts) if restarts.isdigit() and len(restarts) < 10 else None,
    )


def _state(text: str) -> str | None:
    state = sacct.base_state(text)[0]
    return None if state in _HIDING else state


def _text(fields: dict[str, str], key: str) -> str | None:
    value = fields.get(key, "")
    return None if value in ("", "None", "(null)", "N/A", "Unknown") else value
