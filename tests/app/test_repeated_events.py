"""What happens again and again is told once, and then counted."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from firstfault.app import counters, journal
from firstfault.app.left_over import LeftOver
from firstfault.app.refusals import EACH_S, SENDERS_MAX, Refusals
from firstfault.intake.spool import Refused, Sweep
from tests.app.processes import Daemon, configure

Lines = list[tuple[str, dict[str, object]]]


class Heard(logging.Handler):
    """What the daemon's log was told."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: Lines = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.msg, record.__dict__["values"]))


@pytest.fixture
def log() -> Iterator[Lines]:
    heard = Heard()
    before = journal.LOGGER.level
    journal.LOGGER.addHandler(heard)
    journal.LOGGER.setLevel(logging.DEBUG)
    yield heard.lines
    journal.LOGGER.removeHandler(heard)
    journal.LOGGER.setLevel(before)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def refuse(refusals: Refusals, peer: str, status: int = 401, reason: str = "no") -> None:
    refusals.note(logging.WARNING, peer, "/v1/records", status, reason)


def test_the_first_refusal_of_a_sender_is_a_line_and_those_after_are_counted(log: Lines) -> None:
    clock = Clock()
    refusals = Refusals(clock)

    for number in range(100):
        refuse(refusals, "192.0.2.7", reason=f"reason {number}")
        refusals.once()
    clock.now += EACH_S
    refusals.once()

    told = {"path": "/v1/records", "status": 401, "peer": "192.0.2.7"}
    assert log == [
        ("request-refused", told | {"reason": "reason 0"}),
        ("request-refused", told | {"reason": "reason 99", "count": 99}),
    ]


def test_another_sender_and_another_status_are_told_by_themselves(log: Lines) -> None:
    refusals = Refusals()
    refuse(refusals, "192.0.2.7")
    refuse(refusals, "192.0.2.8")
    refuse(refusals, "192.0.2.7", 422)

    assert [(values["peer"], values["status"]) for _, values in log] == [
        ("192.0.2.7", 401),
        ("192.0.2.8", 401),
        ("192.0.2.7", 422),
    ]


def test_a_sender_that_was_quiet_for_a_minute_is_told_anew(log: Lines) -> None:
    clock = Clock()
    refusals = Refusals(clock)
    refuse(refusals, "192.0.2.7")
    clock.now += EACH_S
    refusals.once()
    refuse(refusals, "192.0.2.7")

    assert ["count" in values for _, values in log] == [False, False]


def test_what_was_counted_is_told_at_the_end(log: Lines) -> None:
    refusals = Refusals()
    refuse(refusals, "192.0.2.7")
    refuse(refusals, "192.0.2.7")
    refusals.tell_all()

    assert log[-1][1]["count"] == 1


def test_a_flood_of_senders_is_bounded_in_lines_and_in_memory(log: Lines) -> None:
    refusals = Refusals()
    for number in range(SENDERS_MAX * 10):
        refuse(refusals, f"2001:db8::{number:x}")
    refusals.tell_all()

    assert len(log) == SENDERS_MAX + 2
    assert (log[-1][1]["peer"], log[-1][1]["count"]) == ("others", SENDERS_MAX * 9 - 1)


def left(kind: str) -> float:
    return float(counters.SPOOL_LEFT.labels(kind)._value.get())


def test_a_file_that_cannot_be_read_is_told_once_and_when_the_reason_changes(log: Lines) -> None:
    left_over = LeftOver()
    a, b = Path("/spool/a.json"), Path("/spool/b.json")

    for reasons in ({a: "mode"}, {a: "mode"}, {a: "mode", b: "mode"}, {a: "disk", b: "mode"}):
        left_over.tell(Sweep(unreadable=tuple(Refused(*each) for each in reasons.items())))

    assert [(values["path"], values["reason"]) for _, values in log] == [
        (a, "mode"),
        (b, "mode"),
        (a, "disk"),
    ]
    assert left("unreadable") == 2


def test_a_file_that_comes_back_is_told_again(log: Lines) -> None:
    left_over = LeftOver()
    unreadable = Sweep(unreadable=(Refused(Path("/spool/a.json"), "mode"),))

    for swept in (unreadable, Sweep(), unreadable):
        left_over.tell(swept)

    assert len(log) == 2


def test_files_that_are_stuck_are_told_when_there_are_more(log: Lines) -> None:
    left_over = LeftOver()
    one, other = (Refused(Path(f"/spool/{name}.json"), "full") for name in "ab")

    for stuck in ((one,), (one,), (one, other), (other,), ()):
        left_over.tell(Sweep(stuck=stuck))

    assert [(event, values["count"], values["path"]) for event, values in log] == [
        ("records-stuck", 1, one.path),
        ("records-stuck", 2, other.path),
    ]
    assert left("stuck") == 0


def test_a_stranger_who_asks_a_thousand_times_is_a_line_or_two(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k" * 64)
    (tmp_path / "key").chmod(0o600)
    intake = {"enabled": True, "port": 0, "munge": False, "key_file": str(tmp_path / "key")}
    with Daemon(configure(tmp_path, intake=intake)) as daemon:
        nodes = daemon.wait_for(r"event=intake url=(\S+)")[1]
        with requests.Session() as session:
            for _ in range(1000):
                assert session.post(f"{nodes}/v1/records", data=b"x", timeout=10).status_code == 401
        daemon.stop()
        lines = [line for line in daemon.said().splitlines() if "event=request-refused" in line]

    assert 1 <= len(lines) <= 4
    counts = [int(line.rpartition("count=")[2]) for line in lines if "count=" in line]
    assert sum(counts) + 1 == 1000
    assert "peer=127.0.0.1" in lines[0]
