"""Maintenance reservations, as scontrol prints them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from firstfault.slurm.facts import FactsError
from firstfault.slurm.reservations import Reservation, maintenance, read

# Built from the format of slurm_sprint_reservation_info (src/api/reservation_info.c, 22.05) with
# SLURM_TIME_FORMAT="%Y-%m-%dT%H:%M:%S%z".
MAINT = (
    "ReservationName=maint StartTime=2026-11-30T10:00:00+0100 EndTime=2026-11-30T12:00:00+0100 "
    "Duration=02:00:00 Nodes=n[1-3,7] NodeCnt=4 CoreCnt=16 Features=(null) PartitionName=(null) "
    "Flags=MAINT,IGNORE_JOBS,SPEC_NODES TRES=cpu=16 Users=root Groups=(null) Accounts=(null) "
    "Licenses=(null) State=ACTIVE BurstBuffer=(null) Watts=n/a MaxStartDelay=(null) Comment=x"
)
COURSE = MAINT.replace("=maint ", "=course ").replace("MAINT,IGNORE_JOBS", "DAILY")
WHOLE = Reservation(
    "maint",
    dt.datetime(2026, 11, 30, 9, tzinfo=dt.UTC),
    dt.datetime(2026, 11, 30, 11, tzinfo=dt.UTC),
    ("n1", "n2", "n3", "n7"),
)


def test_only_maintenance_is_read() -> None:
    assert read(f"{COURSE}\n{MAINT}\n") == [WHOLE]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No reservations in the system\n",
        MAINT.replace("+0100", ""),
        MAINT.replace("n[1-3,7]", "n[1-3"),
        MAINT.replace("EndTime=", "End="),
        "Flags=MAINT",
        "\0" * 1000,
    ],
)
def test_what_cannot_be_read_is_left_out(text: str) -> None:
    assert read(text) == []


def test_a_reservation_of_no_nodes_keeps_nothing_back() -> None:
    (found,) = read(MAINT.replace("n[1-3,7]", "(null)"))

    assert found.nodes == ()


def test_words_in_a_comment_count_for_nothing() -> None:
    assert read(MAINT + " EndTime=2099-01-01T00:00:00+0000 Nodes=n[1-9] Flags=DAILY") == [WHOLE]


def scontrol(folder: Path, text: str) -> Path:
    path = folder / "scontrol"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_scontrol_is_asked_for_times_with_their_zone(tmp_path: Path) -> None:
    program = scontrol(tmp_path, f'echo "$* $SLURM_TIME_FORMAT" > {tmp_path}/asked; echo "{MAINT}"')

    assert maintenance(program, 10, "main") == [WHOLE]
    asked = (tmp_path / "asked").read_text()
    assert asked == "--clusters=main show reservation -o %Y-%m-%dT%H:%M:%S%z\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [("echo no >&2; exit 1", "ended with status 1: no"), ("sleep 60", "Is slurmctld up")],
)
def test_an_answer_that_does_not_come_is_told(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(FactsError, match=said):
        maintenance(scontrol(tmp_path, text), 0.3)
