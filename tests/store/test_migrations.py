"""The schema: made once, whoever starts first; refused where it cannot be used, shared where it can."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import alembic.command
import alembic.config
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from firstfault.store import evidence, listing
from firstfault.store.database import Database, StoreError, open_store
from firstfault.store.schema import compatibility, jobs, metadata

RECORDED = Path(__file__).parent / "recorded"
OPEN = "import sys; from firstfault.store.database import open_store; open_store(sys.argv[1])"


@pytest.fixture
def database(store_url: str) -> Iterator[Database]:
    opened = open_store(store_url)
    yield opened
    opened.close()


def become(database: Database, revision: str, oldest_program: str) -> None:
    """What a newer program would have made of the store."""
    with database.writing() as connection:
        connection.execute(
            sa.text("UPDATE alembic_version SET version_num = :to"), {"to": revision}
        )
        connection.execute(compatibility.update().values(oldest_program=oldest_program))


def head(database: Database) -> str:
    with database.reading() as connection:
        (revision,) = MigrationContext.configure(connection).get_current_heads()
        return revision


def test_the_migrations_make_the_schema_that_the_code_uses(database: Database) -> None:
    with database.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_a_schema_that_only_newer_programs_may_use_is_refused(
    store_url: str, database: Database
) -> None:
    own = head(database)
    become(database, "9999", "9998")

    with pytest.raises(StoreError) as refused:
        open_store(store_url)

    said = str(refused.value)
    assert (
        f"has schema revision 9999; this version of firstfault knows revisions up to {own}" in said
    )
    assert "takes programs from 9998 on" in said
    assert "install that version, or go back to a copy of the store" in said


def test_a_newer_schema_that_this_program_may_use_is_used_and_left_as_it_is(
    store_url: str, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    become(database, "9999", head(database))

    open_store(store_url).close()

    assert head(database) == "9999"
    assert "store-is-newer" in caplog.text


def test_two_programs_that_start_at_once_migrate_once(store_url: str) -> None:
    starting = [
        subprocess.Popen([sys.executable, "-c", OPEN, store_url], stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]

    said = [process.communicate(timeout=120)[1] for process in starting]

    assert said == [""] * 4
    assert [process.returncode for process in starting] == [0] * 4


@pytest.mark.parametrize(
    "recording", sorted(RECORDED.glob("revision-*.json")), ids=lambda p: p.stem
)
def test_an_older_programs_statements_run_on_todays_schema(
    database: Database, recording: Path
) -> None:
    statements = json.loads(recording.read_text("utf-8"))
    with database.writing() as connection:
        for statement in statements:
            values = {name: _value(value) for name, value in statement["values"].items()}
            connection.execute(sa.text(statement["sql"]), values)

    with database.reading() as connection:
        (job,) = connection.execute(sa.select(jobs)).all()
    assert (job.state, job.verdict_revision, job.nodes_reported) == ("revised", 2, 2)


def test_an_older_store_is_migrated_with_all_that_it_holds(
    store_url: str, database: Database
) -> None:
    with database.writing() as connection:
        config = alembic.config.Config()
        config.set_main_option("script_location", "firstfault.store:migrations")
        config.attributes["connection"] = connection
        alembic.command.downgrade(config, "0001")
        for statement in json.loads((RECORDED / "revision-0001.json").read_text("utf-8")):
            values = {name: _value(value) for name, value in statement["values"].items()}
            connection.execute(sa.text(statement["sql"]), values)

    with closing(open_store(store_url)) as migrated:
        assert len(evidence.packed(migrated, 1)) == 2
        (stored,) = listing.current_verdicts(migrated, "12", "testcluster")
        assert (stored.revision, stored.verdict.cause.id) == (2, "memory.host-oom")


def test_each_revision_before_todays_has_its_programs_statements_recorded(
    database: Database,
) -> None:
    assert len(list(RECORDED.glob("revision-*.json"))) == int(head(database)) - 1


def _value(value: Any) -> Any:
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value
