"""What stands in a request's address: what is taken, what is refused, and in which words."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.web.api import parameters as p

NOON = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-30T12:00:00Z", NOON),
        ("2026-11-30t12:00:00z", NOON),
        ("2026-11-30T13:30:00+01:30", NOON),
        ("2026-11-30T11:00:00-01:00", NOON),
        ("2026-11-30T12:00:00.250Z", NOON.replace(microsecond=250_000)),
        ("2026-11-30T12:00:00.1234567Z", NOON.replace(microsecond=123_456)),
        ("2026-11-30", NOON.replace(hour=0)),
        ("2016-12-31T23:59:60Z", dt.datetime(2016, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC)),
        ("0000-01-01T00:00:00Z", p.EARLIEST),
        ("0001-01-01T00:00:00+23:59", p.EARLIEST),
        ("9999-12-31T23:59:59-23:59", p.LATEST),
    ],
)
def test_a_time_is_read_as_rfc_3339_writes_it(text: str, at: dt.datetime) -> None:
    assert p.moment("since", "").read(text) == at


@pytest.mark.parametrize(
    "text",
    [
        "yesterday",
        "20261130",
        "2026-W48-1",
        "2026-11-30T12:00",
        "2026-11-30T12:00:00",
        "2026-11-30 12:00:00Z",
        "2026-11-30T12:00:00 01:00",
        "2026-13-01",
        "2026-02-30",
        "2026-11-30T24:00:00Z",
        "2026-11-30T12:00:00+24:00",
        "2026-11-30T12:00:00Z\n",
        "٢٠٢٦-11-30",
        "1764504000",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is "):
        p.moment("since", "").read(text)


@pytest.mark.parametrize("text", ["0", "501", "1.0", "1e2", "+1", "١", "9" * 30, "-1", " 1", "1\n"])
def test_what_is_no_number_of_the_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="whole number from 1 to 500"):
        p.number("limit", "", 1, 500).read(text)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for each in (p.moment("a", ""), p.number("b", "", 1, 9), p.word("c", ""), p.segment("d", "")):
        try:
            each.read(text)
        except ValueError as error:
            assert str(error).isprintable()


@given(st.text(alphabet=st.characters(max_codepoint=0x2FF), min_size=1, max_size=20))
def test_a_word_is_taken_where_its_schema_says_so(text: str) -> None:
    word = p.word("name", "")

    try:
        taken = word.read(text) == text
    except ValueError:
        taken = False

    assert taken is bool(re.fullmatch(p.WORD_PATTERN.removesuffix("$"), text))
