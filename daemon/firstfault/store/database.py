"""Opening the store: SQLite in WAL mode by default, PostgreSQL by URL; migrated on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import alembic.command
import alembic.config
import alembic.script
import sqlalchemy as sa
from alembic.runtime.migration import MigrationContext

BUSY_S = 30.0


class StoreError(RuntimeError):
    """The store cannot be used; the message says which and what to do."""


class Database:
    """The engine with its two kinds of connection. Threads may share it."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection that sees one state of the store and writes nothing."""
        with self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction: all of it is kept, or nothing."""
        with self.engine.connect() as connection:
            connection.execution_options(firstfault_write=True)
            with connection.begin():
                yield connection

    def close(self) -> None:
        """Closes all connections."""
        self.engine.dispose()


def connect(url: str) -> Database:
    """The database at a SQLAlchemy ``url``, as it is: for those who only read.

    Raises `StoreError` where it is not there, or its URL or driver cannot be used.
    """
    database = _database(url)
    file = database.engine.url.database
    if database.engine.dialect.name == "sqlite" and file and not Path(file).exists():
        # SQLite would make an empty one, owned by whoever looked.
        raise StoreError(
            f"the store {_shown(url)} is not there. Has the daemon run with this configuration?"
        )
    return database


def open_store(url: str) -> Database:
    """The database at ``url`` with today's schema; it is made, or migrated, where it must be.

    Raises `StoreError` where it cannot be opened or its schema is newer than this program.
    """
    database = _database(url)
    try:
        migrate(database.engine)
    except sa.exc.SQLAlchemyError as error:
        database.close()
        raise StoreError(
            f"the store {_shown(url)} cannot be opened: {error}. Check that the folder exists "
            f"and that this user may write there."
        ) from error
    except StoreError:
        database.close()
        raise
    return database


def migrate(engine: sa.Engine) -> None:
    """Brings the schema to this program's version.

    Raises `StoreError` for a schema that a newer program made.
    """
    config = alembic.config.Config()
    config.set_main_option("script_location", "firstfault.store:migrations")
    known = {
        script.revision
        for script in alembic.script.ScriptDirectory.from_config(config).walk_revisions()
    }
    with engine.connect() as connection:
        connection.execution_options(firstfault_write=True)
        with connection.begin():
            current = set(MigrationContext.configure(connection).get_current_heads())
            if not current <= known:
                raise StoreError(
                    f"the store's schema is {', '.join(sorted(current))}, which this version of "
                    f"firstfault does not know: it was made by a newer one. Install that version."
                )
            config.attributes["connection"] = connection
            alembic.command.upgrade(config, "head")


def _database(url: str) -> Database:
    try:
        parsed = sa.make_url(url)
        if parsed.get_backend_name() == "sqlite":
            engine = sa.create_engine(parsed, connect_args={"timeout": BUSY_S})
            _prepare_sqlite(engine)
        else:
            engine = sa.create_engine(parsed, pool_pre_ping=True)
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ImportError) as error:
        raise StoreError(f"store.url {_shown(url)}: {error}") from error
    return Database(engine)


def _prepare_sqlite(engine: sa.Engine) -> None:
    @sa.event.listens_for(engine, "connect")
    def on_connect(connection: Any, _record: object) -> None:
        # The driver's own BEGIN comes late and never as IMMEDIATE: a reader that turns writer
        # in mid-transaction fails at once with "database is locked" instead of waiting.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        # FULL: the spool's file is deleted once its row is committed.
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    @sa.event.listens_for(engine, "begin")
    def on_begin(connection: sa.Connection) -> None:
        write = connection.get_execution_options().get("firstfault_write")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _shown(url: str) -> str:
    try:
        return sa.make_url(url).render_as_string(hide_password=True)
    except sa.exc.ArgumentError:
        return "(not a URL)"
