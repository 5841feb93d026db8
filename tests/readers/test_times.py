"""Times as logs print them."""

from __future__ import annotations

import datetime as dt

import pytest

from firstfault.model.document import Clock
from firstfault.model.line import Span
from firstfault.readers.times import Zone, epoch, glog, moment, noticed, within_second, zone
from tests.readers.logs import document

AT = dt.datetime(2026, 11, 30, 15, 56, 25, tzinfo=dt.UTC)
UTC_ZONE = Zone(0, True, 2026)


@pytest.mark.parametrize(
    ("text", "micro"),
    [
        ("2026-11-30T15:56:25", 0),
        ("2026-11-30 15:56:25,805", 805_000),
        ("2026-11-30_15:56:25", 0),
        ("2026-11-30T15:56:25.123456789", 123_456),
        ("2026-11-30T15:56:25.5 and more", 500_000),
    ],
)
def test_a_moment_is_read_in_each_notation(text: str, micro: int) -> None:
    assert moment(text, UTC_ZONE) == AT.replace(microsecond=micro)


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-13-30T15:56:25", "2026-02-30T00:00:00", "0000-01-01T00:00:00"]
)
def test_what_is_no_date_is_no_moment(text: str) -> None:
    assert moment(text, UTC_ZONE) is None


def test_local_times_are_of_the_documents_zone() -> None:
    assert moment("2026-11-30T16:56:25", Zone(3_600, True, 2026)) == AT
    assert moment("0001-01-01T00:00:00", Zone(3_600, True, 2026)) is None


def test_a_second_is_a_span_of_one_second() -> None:
    assert within_second("2026-11-30T15:56:25", UTC_ZONE) == Span(AT, AT + dt.timedelta(seconds=1))
    assert within_second("x", UTC_ZONE) is None


def test_what_was_noticed_happened_then_or_before() -> None:
    assert noticed(AT) == Span(None, AT)
    assert noticed(None) is None


@pytest.mark.parametrize(
    ("day", "clock", "expected"),
    [
        ("1130", "15:56:25.000000", AT),
        ("703", "20:29:13.091296956", dt.datetime(2026, 7, 3, 20, 29, 13, 91_296, dt.UTC)),
        ("0229", "00:00:00.000", None),
        ("30", "00:00:00.000", None),
        ("1130", "25:00:00.000", None),
    ],
)
def test_a_glog_time_takes_the_documents_year(
    day: str, clock: str, expected: dt.datetime | None
) -> None:
    assert glog(day, clock, UTC_ZONE) == expected


def test_a_glog_time_without_a_year_is_none() -> None:
    assert glog("1130", "15:56:25.000000", Zone(0, True, None)) is None


def test_the_year_is_the_first_that_the_document_names() -> None:
    text = "step\n  time      : 2025-06-08_19:04:45\n2026-01-01T00:00:00\n"

    assert zone(document(text, clock=Clock(utc_offset_s=7_200))) == Zone(7_200, True, 2025)


def test_without_a_date_the_files_own_year_counts_and_without_a_clock_no_zone_is_known() -> None:
    assert zone(document("step", modified_at=AT)) == Zone(0, False, 2026)
    assert zone(document("step")) == Zone(0, False, None)


@pytest.mark.parametrize("seconds", [1e300, float("inf"), float("nan"), -1e18])
def test_an_epoch_out_of_this_world_is_none(seconds: float) -> None:
    assert epoch(seconds) is None


def test_an_epoch_is_a_moment_in_utc() -> None:
    assert epoch(AT.timestamp()) == AT
