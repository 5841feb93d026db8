"""A PostgreSQL database that sorts as a language does answers as one that sorts bytes."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from firstfault.app.board import StoredBoard
from firstfault.model import board as b
from tests.databases import USER, PostgreSQL
from tests.web import boards
from tests.web.boards import ADMINISTRATOR

LIST = boards.Remembered(boards.ENDS)


@pytest.fixture(scope="module")
def board(postgresql: PostgreSQL) -> Iterator[StoredBoard]:
    server = {"host": str(postgresql.folder), "user": USER, "autocommit": True}
    with psycopg.connect(dbname="postgres", **server) as connection:
        connection.execute(
            "CREATE DATABASE sorted TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"
        )
    url = f"postgresql+psycopg://{USER}@/sorted?host={postgresql.folder}"
    with psycopg.connect(dbname="sorted", **server) as connection:
        (row,) = connection.execute("SELECT 'cluster:main' < 'cluster;'").fetchall()
        assert row == (False,)
    made = boards.stored(url)
    yield made
    made.close_store()
    postgresql.drop(url)


def test_the_names_of_a_kind_are_found(board: StoredBoard) -> None:
    assert board.names(ADMINISTRATOR) == LIST.names(ADMINISTRATOR)


@pytest.mark.parametrize("family", ["memory.", "gpu.", "slurm.", "python."])
def test_the_causes_of_a_family_are_found(board: StoredBoard, family: str) -> None:
    which = b.FailureFilter(cause=family)
    found = board.failures(ADMINISTRATOR, which, limit=500).failures

    assert {one.job for one in found} == {
        one.job for one in LIST.failures(ADMINISTRATOR, which, limit=500).failures
    }


def test_words_are_found(board: StoredBoard) -> None:
    which = b.FailureFilter(text="Rank killed")
    found = board.failures(ADMINISTRATOR, which, limit=500).failures

    assert found and len(found) == len(LIST.failures(ADMINISTRATOR, which, limit=500).failures)
