"""A job as pyslurm gives it (`pyslurm.db.Job.to_dict`, 25.11.2), as facts.

Times are seconds since 1970, the limit is in minutes, ids are numbers; exit codes of 128 and more
have lost 128, as in sacct's text before 25.11. Seen against a slurmdbd of 26.05: task 0 of an array
has no task id, nor has a heterogeneous job's leader an offset, and of a step's output %t is made 0, so that its command line counts first.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from firstfault.model.slurm import ExitCode, JobFacts, StepFacts
from firstfault.readers.sacct import base_state, gpus_of
from firstfault.readers.stdio import asked_for

_NO_VAL = 0xFFFFFFFE

Fields = Mapping[str, object]


def job_facts(job: Fields) -> JobFacts:
    """The facts of ``job``. What has another type than it should is left out.

    ``cancelled_by_uid`` beside pyslurm's own fields is the uid of its ``cancelled_by``, a name.
    """
    state, _ = base_state(_text(job, "state") or "")
    limit = _number(job, "time_limit")
    steps = job.get("steps")
    return JobFacts(
        id=_id(job),
        raw_id=str(_number(job, "id") or 0),
        cluster=_text(job, "cluster"),
        name=_text(job, "name"),
        user=_text(job, "user_name"),
        uid=_number(job, "user_id"),
        account=_text(job, "account"),
        partition=_text(job, "partition"),
        state=state,
        by_uid=_number(job, "cancelled_by_uid") if state == "CANCELLED" else None,
        reason=_text(job, "state_reason"),
        exit_code=_exit_code(job, "exit_code"),
        derived_exit_code=_exit_code(job, "derived_exit_code"),
        nodes=_nodes(job),
        submitted_at=_moment(job, "submit_time"),
        started_at=_moment(job, "start_time"),
        ended_at=_moment(job, "end_time"),
        time_limit_s=None if limit is None else limit * 60,
        work_dir=_text(job, "working_directory"),
        restarts=_number(job, "requeue_count"),
        failed_node=_text(job, "failed_node"),
        stdout=_text(job, "standard_output"),
        stderr=_text(job, "standard_error"),
        gpus=_gpus(job),
        steps=tuple(
            _step(step)
            for step in (steps.values() if isinstance(steps, Mapping) else ())
            if isinstance(step, Mapping)
        ),
    )


def _gpus(job: Fields) -> int | None:
    given = job.get("gpus")
    if not isinstance(given, Mapping):
        return None
    return gpus_of(
        {
            f"gres/{str(name).removeprefix('gres/')}": count
            for name, count in given.items()
            if isinstance(count, int)
        }
    )


def _step(step: Fields) -> StepFacts:
    state, _ = base_state(_text(step, "state") or "")
    stdout, stderr = asked_for(_text(step, "submit_command") or "")
    return StepFacts(
        id=str(step.get("id")),
        name=_text(step, "name"),
        state=state,
        by_uid=_number(step, "cancelled_by_uid") if state == "CANCELLED" else None,
        exit_code=_exit_code(step, "exit_code"),
        nodes=_nodes(step),
        started_at=_moment(step, "start_time"),
        ended_at=_moment(step, "end_time"),
        stdout=stdout or _text(step, "standard_output"),
        stderr=stderr or _text(step, "standard_error"),
    )


def _id(job: Fields) -> str:
    """As sacct's JobID: "123_4" of an array's task, "123+1" of a heterogeneous job's component."""
    array, task = _number(job, "array_id"), _number(job, "array_task_id")
    leader, offset = _number(job, "heterogeneous_id"), _number(job, "heterogeneous_offset")
    raw = _number(job, "id") or 0
    if array and (task is not None or _moment(job, "start_time")):
        return f"{array}_{task or 0}"
    if leader and (offset is not None or leader == raw):
        return f"{leader}+{offset or 0}"
    return str(raw)


def _nodes(fields: Fields) -> str | None:
    value = _text(fields, "nodelist")
    return None if value == "None assigned" else value


def _exit_code(fields: Fields, name: str) -> ExitCode | None:
    code, signal = _number(fields, name), _number(fields, f"{name}_signal")
    return None if code is None or signal is None else ExitCode(code, signal)


def _moment(fields: Fields, name: str) -> dt.datetime | None:
    seconds = _number(fields, name)
    return dt.datetime.fromtimestamp(seconds, dt.UTC) if seconds else None


def _number(fields: Fields, name: str) -> int | None:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value < _NO_VAL else None


def _text(fields: Fields, name: str) -> str | None:
    value = fields.get(name)
    return value if isinstance(value, str) and value not in ("", "None", "Unknown") else None
