"""A daemon that is killed in the middle of an upgrade: the store is as before, or as after."""

from __future__ import annotations

import signal
from contextlib import closing

import alembic.autogenerate
import alembic.command
import alembic.config
import alembic.script
import pytest
import sqlalchemy as sa
from alembic.runtime.migration import MigrationContext

from firstfault.store.database import connect
from firstfault.store.schema import metadata
from tests.crash.daemons import open_and_die

pytestmark = pytest.mark.slow

SCRIPTS = alembic.config.Config()
SCRIPTS.set_main_option("script_location", "firstfault.store:migrations")
# The oldest first.
REVISIONS = [
    script.revision
    for script in alembic.script.ScriptDirectory.from_config(SCRIPTS).walk_revisions()
][::-1]
ROWS = 30


@pytest.mark.parametrize("before", [None, *REVISIONS[:-1]])
def test_an_upgrade_that_is_killed_at_any_statement_is_whole_or_not_begun(
    store_url: str, before: str | None
) -> None:
    _make(store_url, before)
    rows = _rows(store_url)
    kills = 0

    while (status := open_and_die(store_url, kills)) != 0:
        assert status == -signal.SIGKILL
        kills += 1
        assert _revision(store_url) == before
        assert _rows(store_url) == rows

    print(f"\nkilled at {kills} statements of the upgrade from {before}")
    assert kills > 5
    assert _revision(store_url) == REVISIONS[-1]
    assert _rows(store_url) == rows
    assert _differences(store_url) == []


def _make(url: str, revision: str | None) -> None:
    """A store of an older schema, with rows."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        if revision is not None:
            SCRIPTS.attributes["connection"] = connection
            alembic.command.upgrade(SCRIPTS, revision)
            jobs = sa.Table("jobs", sa.MetaData(), autoload_with=connection)
            for number in range(ROWS):
                connection.execute(jobs.insert().values(_values(jobs, number)))
    engine.dispose()


def _values(table: sa.Table, number: int) -> dict[str, object]:
    needed = [column for column in table.columns if not column.nullable]
    return {
        column.name: str(number) if isinstance(column.type, sa.String) else number
        for column in needed
        if not isinstance(column.type, sa.Boolean)
    } | {column.name: True for column in needed if isinstance(column.type, sa.Boolean)}


def _rows(url: str) -> list[str]:
    with closing(connect(url)) as database, database.reading() as connection:
        if not sa.inspect(connection).has_table("jobs"):
            return []
        query = sa.text("SELECT job, first_seen_at, suspicious FROM jobs ORDER BY key")
        return [str(row) for row in connection.execute(query)]


def _revision(url: str) -> str | None:
    with closing(connect(url)) as database, database.reading() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def _differences(url: str) -> list[object]:
    """How the tables differ from those that the program reads and writes."""
    with closing(connect(url)) as database, database.reading() as connection:
        return list(
            alembic.autogenerate.compare_metadata(MigrationContext.configure(connection), metadata)
        )
