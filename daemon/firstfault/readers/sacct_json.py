"""`sacct --json` as facts, of every data parser from 22.05's openapi/dbv0.0.38 on.

What differs: the state is a string (22.05, 23.02) or a list with flags (23.11 and later); numbers
are plain or {"set", "infinite", "number"}; a step's id is an object or "12.batch". 22.05 and
23.02 print every exit that was not by a signal as SUCCESS with return code 0 (22.05
openapi/dbv0.0.38/parse.c:2425, 23.02 v0.0.39/parsers.c:1135): there a zero exit code is believed
only where the state says COMPLETED.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec

from firstfault.model.slurm import ExitCode, JobFacts, StepFacts

_OLD_PARSERS = ("dbv0.0.36", "dbv0.0.37", "dbv0.0.38", "dbv0.0.39", "v0.0.39")
_FLAGS = frozenset(
    {
        "COMPLETING",
        "CONFIGURING",
        "REQUEUED",
        "REQUEUE_HOLD",
        "RESIZING",
        "SIGNALING",
        "SPECIAL_EXIT",
        "STOPPED",
    }
)


def looks_like_json(head: bytes) -> bool:
    """True when ``head`` (the first few KiB of a file) starts like `sacct --json`."""
    start = head.lstrip()[:4096]
    return start.startswith(b"{") and (
        (b'"meta"' in start and b'"plugin"' in start)
        or (
            b'"jobs"' in start
            and (b'"derived_exit_code"' in start or b'"allocation_nodes"' in start)
        )
    )


def parse_json(data: bytes) -> list[JobFacts]:
    """The jobs of `sacct --json`, in its order. Raises ValueError for anything else."""
    try:
        top = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not the output of sacct --json: {error}") from error
    fields = _dict(top)
    if not isinstance(fields.get("jobs"), list):
        raise ValueError("not the output of sacct --json: it has no list of jobs")  # noqa: TRY004 - bad content, not a bad call
    blind = _is_blind(fields)
    return [_job(job, blind) for job in _list(fields["jobs"]) if "job_id" in job]


def _is_blind(top: dict[str, Any]) -> bool:
    meta = _dict(top.get("meta"))
    plugin = _dict(meta.get("plugin"))
    said = f"{plugin.get('type')} {plugin.get('data_parser')}"
    if any(old in said for old in _OLD_PARSERS):
        return True
    slurm = _dict(meta.get("Slurm") or meta.get("slurm"))
    major = _number(_dict(slurm.get("version")).get("major"))
    minor = _number(_dict(slurm.get("version")).get("minor"))
    return major is not None and (major, minor or 0) < (23, 11)


def _job(job: dict[str, Any], blind: bool) -> JobFacts:
    times = _dict(job.get("time"))
    states = _states(_dict(job.get("state")).get("current"))
    state = states[0] if states else None
    raw = str(_number(job["job_id"]))
    array = _dict(job.get("array"))
    task = _number(array.get("task_id"))
    master = _number(array.get("job_id"))
    limit = _number(times.get("limit"))
    killer = job.get("kill_request_user")
    return JobFacts(
        id=f"{master}_{task}" if master and task is not None else raw,
        raw_id=raw,
        cluster=_text(job.get("cluster")),
        name=_text(job.get("name")),
        user=_text(job.get("user") or _dict(job.get("association")).get("user")),
        account=_text(job.get("account")),
        partition=_text(job.get("partition")),
        state=state,
        by_uid=int(killer) if isinstance(killer, str) and killer.isdigit() else None,
        reason=_text(_dict(job.get("state")).get("reason")),
        exit_code=_exit_code(job.get("exit_code"), state, blind),
        derived_exit_code=_exit_code(job.get("derived_exit_code"), state, blind),
        nodes=_text(job.get("nodes")),
        submitted_at=_time(times.get("submission")),
        started_at=_time(times.get("start")),
        ended_at=_time(times.get("end")),
        time_limit_s=limit * 60 if limit is not None else None,
        work_dir=_text(job.get("working_directory")),
        restarts=_number(job.get("restart_cnt")),
        failed_node=_text(job.get("failed_node")),
        stdout=_text(job.get("stdout_expanded")),
        stderr=_text(job.get("stderr_expanded")),
        gpus=_gpus(job),
        steps=tuple(_step(step, blind) for step in _list(job.get("steps"))),
    )


def _gpus(job: dict[str, Any]) -> int | None:
    counts = {
        each.get("name"): _number(each.get("count")) or 0
        for each in _list(_dict(job.get("tres")).get("allocated"))
        if each.get("type") == "gres"
    }
    if "gpu" in counts:
        return counts["gpu"]
    typed = [count for name, count in counts.items() if str(name).startswith("gpu:")]
    return sum(typed) if typed else None


def _step(step: dict[str, Any], blind: bool) -> StepFacts:
    named = _dict(step.get("step"))
    identity = named.get("id")
    if isinstance(identity, dict):
        identity = identity.get("step_id")
    states = _states(step.get("state"))
    times = _dict(step.get("time"))
    return StepFacts(
        id=str(identity).rpartition(".")[2],
        name=_text(named.get("name")),
        state=states[0] if states else None,
        exit_code=_exit_code(step.get("exit_code"), states[0] if states else None, blind),
        nodes=_text(_dict(step.get("nodes")).get("range")),
        started_at=_time(times.get("start")),
        ended_at=_time(times.get("end")),
    )


def _exit_code(value: object, state: str | None, blind: bool) -> ExitCode | None:
    if not isinstance(value, dict):
        return None
    code = _number(value.get("return_code"))
    signal = _dict(value.get("signal"))
    number = _number(signal.get("id", signal.get("signal_id"))) or 0
    if number:
        return ExitCode(max(code or 0, 0), number)
    if code is None or (blind and state != "COMPLETED"):
        return None
    return ExitCode(code, 0)


def _states(value: object) -> list[str]:
    """The base state first, then flags."""
    names = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    texts = [name.upper() for name in names if isinstance(name, str) and name]
    return sorted(texts, key=lambda name: name in _FLAGS)


def _number(value: object) -> int | None:
    """A plain number, a number in a string, or {"set", "infinite", "number"}."""
    if isinstance(value, dict):
        return (
            _number(value.get("number")) if value.get("set") and not value.get("infinite") else None
        )
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and value.isdigit() and len(value) < 19 else None


def _time(value: object) -> dt.datetime | None:
    seconds = _number(value)
    if not seconds or not 0 < seconds < 1 << 33:
        return None
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value not in ("", "None", "Unknown") else None


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
