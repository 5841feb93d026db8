"""The program that asks through pyslurm, in a process of its own: `firstfault.slurm.library`.

It is run by path and imports nothing of firstfault. A question is a line of JSON on standard
input, its answer a line on the file descriptor that the first argument numbers; whatever Slurm's
library prints goes elsewhere. Written from pyslurm 25.11.2: `db.Jobs.load` takes ids or a window
(the jobs that were there in it, of any state), knows no earlier incarnations of a requeued job,
and gives a user where sacct gives a uid. Importing it initialises Slurm's library, which ends the
process where it cannot.
"""

from __future__ import annotations

import importlib
import json
import os
import pwd
import sys
from typing import Any

JOB = (
    "account",
    "array_id",
    "array_task_id",
    "cluster",
    "derived_exit_code",
    "derived_exit_code_signal",
    "end_time",
    "exit_code",
    "exit_code_signal",
    "failed_node",
    "heterogeneous_id",
    "heterogeneous_offset",
    "id",
    "name",
    "nodelist",
    "partition",
    "requeue_count",
    "standard_error",
    "standard_output",
    "start_time",
    "state",
    "state_reason",
    "submit_time",
    "time_limit",
    "user_id",
    "user_name",
    "working_directory",
)
STEP = (
    "end_time",
    "exit_code",
    "exit_code_signal",
    "id",
    "name",
    "nodelist",
    "standard_error",
    "standard_output",
    "start_time",
    "state",
    "submit_command",
)


# A command line may be as long as sbatch takes it (1 MiB), for each of an array's tasks.
LONGEST_TEXT = 4096


def main(answers_to: int) -> None:
    """Answers until standard input ends."""
    # Here, and not above: where it cannot be imported, the daemon is told by whom.
    database = importlib.import_module("pyslurm").db
    connection = None
    with os.fdopen(answers_to, "w", encoding="utf-8") as answers:
        for line in sys.stdin:
            question = json.loads(line)
            try:
                if connection is None:
                    connection = database.Connection.open()
                answer: dict[str, object] = {"jobs": told(database, connection, question)}
            except Exception as error:  # noqa: BLE001 - boundary: any failure is an answer
                # A connection that failed is not used again.
                connection = None
                answer = {"error": f"{type(error).__name__}: {error}"[:500]}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


def told(database: Any, connection: object, question: dict[str, Any]) -> list[object]:
    """The jobs that the question is about, as values that JSON has.

    One job that pyslurm stumbles over (25.11.2 does over a step whose statistics name a node that
    it has not, IndexError) costs that job only: it is left out.
    """
    try:
        return _loaded(database, connection, question)
    except Exception as error:
        ids = question.get("ids", ())
        if "RPC" in type(error).__name__ or not ids:
            raise
        if len(ids) == 1:
            return []
        half = len(ids) // 2
        first = told(database, connection, {**question, "ids": ids[:half]})
        return first + told(database, connection, {**question, "ids": ids[half:]})


def _loaded(database: Any, connection: object, question: dict[str, Any]) -> list[object]:
    asked = {"ids": question["ids"]} if "ids" in question else {}
    asked |= {f"{end}_time": question[end] for end in ("start", "end") if end in question}
    if question.get("clusters"):
        asked["clusters"] = question["clusters"]
    found = database.Jobs.load(database.JobFilter(**asked), connection)
    # An array's number brings all of its tasks, that of a heterogeneous job all components.
    ids = set(question.get("ids", ()))
    return [
        _job(job, bool(ids))
        for job in found.values()
        if not ids or job.id in ids or getattr(job, "heterogeneous_id", None) in ids
    ]


def _job(job: object, with_steps: bool) -> dict[str, object]:
    fields = _values(job, JOB)
    steps = getattr(job, "steps", None) if with_steps else None
    fields["steps"] = {
        str(name): _values(step, STEP) | {"cancelled_by_uid": _uid(step)}
        for name, step in (steps or {}).items()
    }
    return fields | {"cancelled_by_uid": _uid(job), "gpus": _gpus(job)}


def _values(thing: object, names: tuple[str, ...]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name in names:
        value = getattr(thing, name, None)
        if isinstance(value, str):
            value = value[:LONGEST_TEXT]
        found[name] = value if isinstance(value, str | int | float) else None
    return found


def _gpus(job: object) -> dict[str, int]:
    """How many GPUs were allocated, by "gpu" and "gpu:a100"."""
    gres = getattr(getattr(job, "allocated_tres", None), "gres", None)
    found: dict[str, int] = {}
    for name, value in gres.items() if isinstance(gres, dict) else ():
        count = getattr(value, "count", value)
        if isinstance(count, int):
            found[str(name)] = count
    return found


def _uid(thing: object) -> int | None:
    name = getattr(thing, "cancelled_by", None)
    if not isinstance(name, str):
        return None
    try:
        return int(name) if name.isdigit() else pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


if __name__ == "__main__":
    main(int(sys.argv[1]))
