"""Records the store's statements over a job's whole life, for the programs of later revisions.

Before a new migration is added: ``python -m tests.store.recording tests/store/recorded/revision-N.json``,
N being the newest revision so far. `tests.store.test_migrations` runs them on every later schema.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.sql.compiler import SQLCompiler

from firstfault.model import jobs as j
from firstfault.model import verdict as v
from firstfault.model.board import FailureFilter, Reader
from firstfault.model.explained import Explained
from firstfault.model.slurm import JobFacts
from firstfault.store import deliveries, evidence, explained, failure_list, listing, work
from firstfault.store.database import Database, open_store
from firstfault.store.schema import UtcTime
from tests.intake.records import ENDED_AT
from tests.store.incoming import incoming

NOW = ENDED_AT + dt.timedelta(seconds=2)


def later(seconds: float) -> dt.datetime:
    return NOW + dt.timedelta(seconds=seconds)


def verdict(cause: str) -> v.Verdict:
    return v.Verdict(
        job=v.Job(id="12"),
        cause=v.Cause(cause, "Rank 3 was killed", "either", v.CONFIRMED),
        initiator=v.Initiator(rank=3, host="n1"),
    )


def life_of_a_job(database: Database) -> None:
    """Two nodes report, two channels are told, Slurm answers, and everything is looked at."""
    evidence.keep(database, [incoming("n1")], NOW)
    judged(database, NOW, verdict("process.killed"), ask_at=later(1))
    for channel in ("slack", "report"):
        (sent,) = deliveries.claim(database, channel, NOW, 60, 10)
        deliveries.sent(database, sent, NOW)
    evidence.keep(database, [incoming("n2")], later(1))
    judged(database, later(1), verdict("memory.host-oom"), judged_evidence=2)
    (failed,) = deliveries.claim(database, "slack", later(1), 60, 10)
    deliveries.failed(database, failed, "down", later(5))
    (failed,) = deliveries.claim(database, "slack", later(5), 60, 10)
    deliveries.failed(database, failed, "gone", None)
    deliveries.drop_others(database, ["slack"])
    (job,) = work.claim_questions(database, later(3), 60, 10)
    facts = JobFacts(id="12", state="FAILED", ended_at=ENDED_AT, name="train")
    work.store_answers(database, [work.Answer(job.key, facts, True, None)], later(3))
    renewed = {"refreshed": verdict("memory.host-oom"), "redo": ("report",), "channels": ()}
    judged(database, later(3), None, judged_evidence=2, judged_facts=1, post=False, **renewed)
    work.next_due_at(database)
    failure_list.page(database, Reader(administrator=True), FailureFilter(), None, 100)
    listing.current_verdicts(database, "12", "testcluster")
    listing.states(database)
    life_of_a_report(database)


def life_of_a_report(database: Database) -> None:
    """Two reports of logs that alice sent are kept, looked at and let go."""
    ids = ("0" * 32, "1" * 32)
    body = explained.packed(Explained(verdict("process.killed")))
    for each in ids:
        row = explained.Row(each, "user alice", "alice", NOW, "a.log", "process.killed", "likely")
        explained.keep(database, row, body, later(-60), 2)
    explained.count(database, "user alice", later(-60), 2)
    explained.listed(database, "user alice", later(-60), 1)
    explained.listed(database, "user alice", later(-60), 1, (NOW, ids[1]))
    for owner in ("user alice", None):
        explained.one(database, ids[0], owner, later(-60))
    explained.forget(database, ids[0], "user alice")
    explained.forget(database, ids[0], None)
    explained.remove(database, later(60))


def judged(database: Database, at: dt.datetime, given: v.Verdict | None, **more: Any) -> None:
    claim = work.claim_jobs(database, at, 60, 10)
    (job,) = claim.jobs
    evidence.packed(database, job.key)
    listing.verdict_of(database, job.key, job.verdict_revision)
    fields: dict[str, Any] = {
        "state": j.REVISED if given is None else j.JUDGED,
        "settled_at": NOW,
        "tried_at": at,
        "judged_evidence": 1,
        "judged_facts": 0,
        "verdict": given,
        "channels": ("slack", "report"),
        "post": True,
    }
    work.finish(database, claim, job, work.Outcome(**(fields | more)), at)


class _Compiler(SQLCompiler):
    def for_update_clause(self, select: Any, **_options: Any) -> str:
        return ""  # SQLite has none


class _AnyDatabase(DefaultDialect):
    supports_native_boolean = True
    statement_compiler = _Compiler


def statements(database: Database) -> list[dict[str, Any]]:
    """The statements that `life_of_a_job` runs from now on, with named parameters."""
    dialect = _AnyDatabase(paramstyle="named")
    said: list[dict[str, Any]] = []

    @sa.event.listens_for(database.engine, "before_execute")
    def keep(_connection: object, clause: Any, many: Any, one: Any, _options: object) -> None:
        for given in many or [one or {}]:
            compiled = clause.compile(
                dialect=dialect,
                column_keys=list(given) or None,
                compile_kwargs={"render_postcompile": True},
            )
            values = compiled.construct_params(given)
            said.append(
                {"sql": str(compiled), "values": {name: _plain(x) for name, x in values.items()}}
            )

    life_of_a_job(database)
    return said


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return UtcTime().process_bind_param(value, None) if isinstance(value, dt.datetime) else value  # type: ignore[arg-type]


def main() -> None:
    """Writes the file that the first argument names."""
    with tempfile.TemporaryDirectory() as folder:
        database = open_store(f"sqlite:///{folder}/ff.db")
        said = statements(database)
        database.close()
    lines = ",\n".join(json.dumps(statement) for statement in said)
    Path(sys.argv[1]).write_text(f"[\n{lines}\n]\n", "utf-8")


if __name__ == "__main__":
    main()
