"""Alembic's entry: runs the migrations on the connection that `firstfault.store.database` gives."""

from __future__ import annotations

from alembic import context

from firstfault.store import failure_tables  # noqa: F401 - its tables belong to the schema
from firstfault.store.schema import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
