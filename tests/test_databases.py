"""The tests' own PostgreSQL server: it can be ended at any moment and comes back as it was."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.databases import PostgreSQL


@pytest.mark.parametrize("end", [PostgreSQL.stop, PostgreSQL.kill])
def test_what_was_committed_is_there_after_a_restart(
    postgresql: PostgreSQL, postgresql_url: str, end: object
) -> None:
    engine = sa.create_engine(postgresql_url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE kept (n integer)"))
        connection.execute(sa.text("INSERT INTO kept VALUES (7)"))

    assert callable(end)
    end(postgresql)
    with pytest.raises(sa.exc.OperationalError), engine.connect():
        pass
    postgresql.start()

    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT n FROM kept")).scalar() == 7
