"""Opening the store: SQLite in WAL mode by default, PostgreSQL by URL; migrated on the way."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import alembic.command
import alembic.config
import alembic.script
import sqlalchemy as sa
from alembic.runtime.migration import MigrationContext

from firstfault.store.schema import compatibility

BUSY_S = 30.0
# What only one program does at a time; numbers that no other program takes in this database.
MIGRATING = 0x66697273740001
JOBS = 0x66697273740002  # changing several jobs: two might wait for each other
KEEPING = 0x66697273740003  # counting what a reader keeps, and adding to it
_OFTEN_VACUUMED = ("failures", "failure_nodes", "failure_words")


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

    Raises `StoreError` where it cannot be opened or its schema is too new for this program.
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


def hold(connection: sa.Connection, lock: int) -> None:
    """Waits until no other transaction holds ``lock``, and holds it until this one ends.

    On SQLite there is nothing to do: whoever writes is alone.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(lock)))


def migrate(engine: sa.Engine) -> None:
    """Brings the schema to this program's version, or finds that it is a newer, usable one.

    Programs that start at once wait for one another. Raises `StoreError` for a schema that a newer
    program made and that this one cannot use.
    """
    config = alembic.config.Config()
    config.set_main_option("script_location", "firstfault.store:migrations")
    scripts = alembic.script.ScriptDirectory.from_config(config)
    known = {script.revision for script in scripts.walk_revisions()}
    with engine.connect() as connection:
        connection.execution_options(firstfault_write=True)
        with connection.begin():
            hold(connection, MIGRATING)
            found = set(MigrationContext.configure(connection).get_current_heads())
            if found <= known:
                config.attributes["connection"] = connection
                alembic.command.upgrade(config, "head")
                _vacuum_often(connection)
                return
            oldest = _oldest_program(connection)
    shown, own = ", ".join(sorted(found)), scripts.get_current_head()
    if oldest not in known:
        raise StoreError(
            f"the store {_shown(str(engine.url))} has schema revision {shown}; this version of "
            f"firstfault knows revisions up to {own}, and the store takes programs from "
            f"{oldest or shown} on. It was made by a newer one: install that version, or go back "
            f"to a copy of the store from before."
        )
    # As firstfault.app.journal, which nothing below it imports, says an event.
    values = {"revision": shown, "known": own}
    logging.getLogger("firstfault").warning("store-is-newer", extra={"values": values})


def _vacuum_often(connection: sa.Connection) -> None:
    """Lets PostgreSQL vacuum the lists of failures each time that they have grown by a fiftieth.

    What came since the last time is fetched row by row though an index holds all that is asked for:
    by itself PostgreSQL would wait for a fifth, the newest. What somebody has set is left alone.
    """
    if connection.dialect.name != "postgresql":
        return
    # Before 13 inserts did not count, and the option is not known.
    if (connection.dialect.server_version_info or (0,)) < (13,):
        return
    options = "autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02"
    untouched = sa.text(
        "SELECT reloptions IS NULL AND pg_has_role(relowner, 'USAGE') FROM pg_class "
        "WHERE oid = CAST(:name AS regclass)"
    )
    for table in _OFTEN_VACUUMED:
        if connection.execute(untouched, {"name": table}).scalar():
            connection.execute(sa.text(f"ALTER TABLE {table} SET ({options})"))


def _oldest_program(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(compatibility.name):
        return None
    oldest: str | None = connection.execute(sa.select(compatibility.c.oldest_program)).scalar()
    return oldest


def _database(url: str) -> Database:
    try:
        parsed = sa.make_url(url)
        if parsed.get_backend_name() == "sqlite":
            engine = sa.create_engine(parsed, connect_args={"timeout": BUSY_S})
            _prepare_sqlite(engine)
        else:
            # Prepared statements keep the plan that was right for the empty tables of a new store.
            unprepared = (
                {"prepare_threshold": None} if parsed.get_driver_name() == "psycopg" else {}
            )
            engine = sa.create_engine(parsed, pool_pre_ping=True, connect_args=unprepared)
            if engine.dialect.name == "postgresql":
                _prepare_postgresql(engine)
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
        # Takes effect on a new store alone; retention then gives pages back bit by bit.
        cursor.execute("PRAGMA auto_vacuum=INCREMENTAL")
        cursor.execute("PRAGMA journal_mode=WAL")
        # FULL: the spool's file is deleted once its row is committed.
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    @sa.event.listens_for(engine, "begin")
    def on_begin(connection: sa.Connection) -> None:
        write = connection.get_execution_options().get("firstfault_write")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _prepare_postgresql(engine: sa.Engine) -> None:
    @sa.event.listens_for(engine, "connect")
    def on_connect(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        # Compiling a question's plan takes longer than it saves: no answer takes a second.
        cursor.execute("SET jit = off")
        cursor.close()
        connection.commit()


def _shown(url: str) -> str:
    try:
        return sa.make_url(url).render_as_string(hide_password=True)
    except sa.exc.ArgumentError:
        return "(not a URL)"
