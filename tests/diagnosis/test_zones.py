"""A time is called UTC only where its log says so, or its node has told its zone."""

from __future__ import annotations

import datetime as dt

import pytest

from firstfault.diagnosis import diagnose
from firstfault.model import verdict as v
from firstfault.model.case import Case
from firstfault.model.document import Clock, Document, Excerpt
from firstfault.model.line import LOCAL, Span, is_local

KILL = (
    "Memory cgroup out of memory: Killed process 700 (python3) total-vm:2465072kB, "
    "anon-rss:1719048kB, file-rss:83912kB, shmem-rss:0kB, UID:1001"
)
LOCAL_LINE = f"[Mon Nov 30 15:56:25 2026] {KILL}\n"
ZONED_LINE = f"2026-11-30T15:56:25,000000+01:00 {KILL}\n"
SYSLOG_LINE = f"2026-11-30T15:56:25.000000+01:00 n4 kernel: {KILL}\n"
BEGIN = dt.datetime(2026, 11, 30, 15, 56, 25)  # noqa: DTZ001 - a local time


def judged(line: str, clock: Clock | None = None) -> v.Initiator:
    data = line.encode()
    log = Document("dmesg.txt", (Excerpt(0, 1, data),), "n4", size=len(data), clock=clock)
    verdict = diagnose(Case((log,)))

    assert verdict.cause.id == "memory.cgroup-oom"
    return verdict.initiator


def test_a_local_time_is_told_as_one() -> None:
    first = judged(LOCAL_LINE)

    assert (first.earliest, first.latest) == (None, None)
    assert first.local == v.LocalTimes(BEGIN, BEGIN + dt.timedelta(seconds=1))


@pytest.mark.parametrize("line", [ZONED_LINE, SYSLOG_LINE])
def test_a_time_with_its_zone_is_in_utc(line: str) -> None:
    first = judged(line)

    assert first.earliest == dt.datetime(2026, 11, 30, 14, 56, 25, tzinfo=dt.UTC)
    assert first.local is None


def test_a_local_time_of_a_node_that_has_told_its_zone_is_in_utc() -> None:
    first = judged(LOCAL_LINE, Clock(utc_offset_s=3600))

    assert first.earliest == dt.datetime(2026, 11, 30, 14, 56, 25, tzinfo=dt.UTC)
    assert first.local is None


def test_local_times_are_printed_without_a_zone() -> None:
    data = LOCAL_LINE.encode()
    verdict = diagnose(Case((Document("dmesg.txt", (Excerpt(0, 1, data),), "n4"),)))
    said = v.encode(verdict)

    assert b'"earliest": "2026-11-30T15:56:25"' in said
    assert b"2026-11-30T15:56:25Z" not in said
    assert v.decode(said) == verdict


def test_a_local_time_stays_one_whatever_is_added_to_it() -> None:
    at = dt.datetime(2026, 11, 30, tzinfo=LOCAL)

    assert is_local(at + dt.timedelta(hours=1))
    assert Span(None, at).local
    assert not Span(at.astimezone(dt.UTC), None).local
    assert at == at.astimezone(dt.UTC)
