"""Recorded jobs that Slurm ended: those that hung are said to have hung, and no others."""

from __future__ import annotations

import datetime as dt
import random

import msgspec
import pytest

from firstfault.diagnosis import diagnose
from firstfault.model import verdict as v
from firstfault.model.case import Case
from firstfault.model.document import Excerpt
from tests.diagnosis.case_files import NAMES, case, expected

ENDED = [name for name in NAMES if "hung" in expected(name)]
HUNG = [name for name in ENDED if expected(name)["hung"]]
STUCK = [name for name in NAMES if expected(name)["cause"] == ["process.stuck"]]


def says_hung(verdict: v.Verdict) -> bool:
    return verdict.cause.title.startswith("The job hung")


@pytest.mark.parametrize("name", ENDED)
def test_a_job_that_hung_is_said_to_have_hung_and_no_other(name: str) -> None:
    verdict = diagnose(case(name))

    assert says_hung(verdict) is expected(name)["hung"]


@pytest.mark.parametrize("name", sorted({*NAMES} - {*ENDED}))
def test_a_job_that_is_not_known_to_hang_is_not_said_to(name: str) -> None:
    assert not says_hung(diagnose(case(name)))


@pytest.mark.parametrize("name", HUNG)
def test_what_is_said_of_a_hang_rests_on_a_time_and_asks_for_the_stacks(name: str) -> None:
    verdict = diagnose(case(name))

    assert any("the last word of" in note for note in verdict.notes)
    assert any("stacks" in each.what for each in verdict.missing)
    assert "process.stuck" in {each.cause for each in verdict.alternatives}


@pytest.mark.parametrize("name", [name for name in STUCK if name.startswith("h")])
def test_without_its_own_stack_no_rank_is_named(name: str) -> None:
    whole, rank = case(name), expected(name)["rank"]

    verdict = diagnose(without_frames_of(whole, rank))

    assert verdict.cause.id.startswith("slurm.")
    assert verdict.initiator.rank is None


@pytest.mark.parametrize("name", [*HUNG, *(each for each in STUCK if each.startswith("h"))])
def test_a_console_cut_anywhere_makes_nothing_surer(name: str) -> None:
    chance = random.Random(name)
    whole = case(name)
    truth = expected(name)

    for _ in range(12):
        verdict = diagnose(cut(whole, chance))

        if verdict.cause.confidence == v.CONFIRMED:
            assert verdict.cause.id in (*truth["cause"], "slurm.time-limit", "slurm.cancelled")
        assert verdict.initiator.rank in (None, truth.get("rank"))


@pytest.mark.parametrize("name", HUNG)
def test_a_clock_of_another_zone_makes_no_hang(name: str) -> None:
    verdict = diagnose(with_lines_moved(case("h213-limit-healthy"), hours=len(name) % 11 - 5 or 1))

    assert not says_hung(verdict)


def without_frames_of(whole: Case, rank: int) -> Case:
    label = f"{rank}: ".encode()

    def kept(line: bytes) -> bool:
        return not (line.startswith(label) and (b"File " in line or b"(most recent" in line))

    return _changed(
        msgspec.structs.replace(
            whole,
            documents=tuple(d for d in whole.documents if not d.name.endswith(f"rank{rank}.txt")),
        ),
        lambda data: b"".join(line for line in data.splitlines(keepends=True) if kept(line)),
    )


def cut(whole: Case, chance: random.Random) -> Case:
    return _changed(whole, lambda data: data[: chance.randrange(len(data) + 1)])


def with_lines_moved(whole: Case, hours: int) -> Case:
    def moved(line: bytes) -> bytes:
        head, found, rest = line.partition(b" 2026-12-01 ")
        if not found:
            return line
        at = dt.datetime.fromisoformat(f"2026-12-01 {rest[:8].decode()}")
        return head + f" {at + dt.timedelta(hours=hours)}".encode() + rest[8:]

    return _changed(
        whole, lambda data: b"".join(moved(line) for line in data.splitlines(keepends=True))
    )


def _changed(whole: Case, change: object) -> Case:
    assert callable(change)
    return msgspec.structs.replace(
        whole,
        documents=tuple(
            d
            if d.name.endswith(".txt")
            else msgspec.structs.replace(
                d,
                excerpts=tuple(Excerpt(e.offset, e.line, change(e.data)) for e in d.excerpts),
            )
            for d in whole.documents
        ),
    )


@pytest.mark.parametrize("name", [name for name in ENDED if "limit" in name])
def test_a_job_that_hung_is_not_told_to_ask_for_more_time(name: str) -> None:
    verdict = diagnose(case(name))

    more = any("longer --time" in each for each in verdict.remedy.do)
    assert more is not says_hung(verdict)
