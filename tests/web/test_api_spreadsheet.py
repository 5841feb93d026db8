"""CSV: read back as it was, and inert in a spreadsheet."""

from __future__ import annotations

import csv
import datetime as dt
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.web.api import spreadsheet


def read(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))


def test_values_are_written_as_programs_read_them() -> None:
    at = dt.datetime(2026, 11, 30, 16, tzinfo=dt.UTC)

    data = spreadsheet.lines([["a", None, at, True, 1.5, -3, {"gpu.ecc": 2, "unknown": 1}]])

    assert data == b"a,,2026-11-30T16:00:00Z,true,1.5,-3,gpu.ecc 2; unknown 1\r\n"


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "=cmd|'/c calc'!A0", "＝1"],
)
def test_a_formula_becomes_text(text: str) -> None:
    [[cell]] = read(spreadsheet.lines([[text]]))

    assert cell == "'" + text


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_whatever_users_write_is_one_cell_that_no_formula_begins(texts: list[str]) -> None:
    [cells] = read(spreadsheet.lines([["first", *texts]]))

    assert len(cells) == len(texts) + 1
    for text, cell in zip(texts, cells[1:], strict=True):
        assert cell.removeprefix("'") == text.replace("\x00", "").removeprefix("'")
        assert not cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
