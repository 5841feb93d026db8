"""However evidence is damaged, no verdict is sure of what is not so."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from typing import Any

import pytest

from firstfault.diagnosis import diagnose
from firstfault.model import verdict as v
from firstfault.model.case import Case
from firstfault.runs.told import told
from tests.diagnosis.case_files import NAMES, case, expected, judged
from tests.diagnosis.damage import Ground, Mutant
from tests.diagnosis.mutations import mutate


@cache
def ground(name: str) -> Ground:
    """The hosts of a case, from its undamaged evidence."""
    tasks: dict[str, set[int]] = {}
    folders: dict[str, set[str]] = {}
    ranks: dict[int, str] = {}
    speakers: dict[int, tuple[int, int]] = {}
    for run in told(case(name)).runs:
        for process in run.roster:
            if process.host is None:
                continue
            if process.rank is not None:
                ranks[process.rank] = process.host
                if process.task is not None and process.local_rank is not None:
                    speakers[process.rank] = (process.task, process.local_rank)
            if process.task is not None:
                tasks.setdefault(process.host, set()).add(process.task)
            if process.run is not None:
                folders.setdefault(process.host, set()).add(process.run)
    return Ground(
        tuple(sorted({*tasks, *folders})),
        {host: tuple(sorted(found)) for host, found in tasks.items()},
        {host: tuple(sorted(found)) for host, found in folders.items()},
        ranks,
        tuple(sorted(right_ranks(expected(name)))),
        speakers,
    )


def right_ranks(truth: dict[str, Any]) -> set[int]:
    """The ranks that failed first."""
    return {rank for rank in (truth.get("rank"), *truth.get("also", ())) if rank is not None}


def wrongs(
    verdict: v.Verdict, truth: dict[str, Any], ranks: dict[int, str], names: dict[str, str]
) -> list[str]:
    """What ``verdict`` is sure of and wrong in; nothing that it is not sure of is wrong.

    ``ranks`` tells each rank's host, ``names`` the hosts' new names.
    """
    found = []
    cause = verdict.cause
    if cause.confidence == v.CONFIRMED and cause.id not in truth["cause"]:
        found.append(f"cause {cause.id}, not {truth['cause']}")
    who = verdict.initiator
    if who.confidence != v.CONFIRMED:
        return found
    right = right_ranks(truth)
    hosts = {truth.get("host"), *truth.get("hosts", ()), *(ranks.get(rank) for rank in right)}
    known = {names.get(host, host) for host in hosts if host is not None}
    for member in (v.Member(who.rank, who.host), *who.also):
        if member.rank is not None and member.rank not in right:
            found.append(f"rank {member.rank}, not {sorted(right)}")
        host = ranks.get(-1 if member.rank is None else member.rank)
        own = known if host is None else {names.get(host, host)}
        # A console alone knows a machine by its own name only.
        own |= set(truth.get("own_names", ()))
        if member.host is not None and member.host not in own:
            found.append(f"rank {member.rank} on {member.host}, not on {sorted(own)}")
    return found


def tried(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """``count`` mutants, taken from all cases in turn: how sure the verdicts were, and what is wrong."""
    counts: Counter[str] = Counter()
    failures = []
    names = [name for name in NAMES if "open" not in expected(name)]
    for number in range(count):
        name = names[number % len(names)]
        mutant = one(name, seed + number)
        verdict = diagnose(mutant.case)
        counts[verdict.cause.confidence] += 1
        failures += [
            f"{name} seed {seed + number} {'+'.join(mutant.done)}: {wrong}"
            for wrong in wrongs(
                verdict, left_of(expected(name), mutant), ground(name).ranks, dict(mutant.names)
            )
        ]
    return counts, failures


def left_of(truth: dict[str, Any], mutant: Mutant) -> dict[str, Any]:
    """What is true of the evidence that is left: where its proof is gone, Slurm's own word holds.

    ``gone`` names words without which another cause is the honest answer. Where Slurm ended a job
    that hung (``ended_by``), that is so whatever is left of the words that tell why it hung.
    """
    if "ended_by" in truth:
        truth = {**truth, "cause": [*truth["cause"], truth["ended_by"]]}
    key = truth.get("key", "").encode()
    data = b"".join(each.data for d in mutant.case.documents for each in d.excerpts)
    for word, causes in truth.get("gone", {}).items():
        if word.encode() not in data:
            truth = {**truth, "cause": [*truth["cause"], *causes]}
    slurms = [cause for cause in truth.get("near_miss_of", ()) if cause.startswith("slurm.")]
    if not key or key in data:
        return truth
    return {**truth, "cause": [*truth["cause"], *slurms]}


def one(name: str, seed: int) -> Mutant:
    """The mutant of a case that a seed makes."""
    return mutate(random.Random(seed), case(name), ground(name))


def test_three_hundred_damaged_cases_make_no_wrong_verdict_sure() -> None:
    counts, failures = tried(300, seed=1)

    assert failures == []
    assert counts[v.CONFIRMED] >= 100, f"never daring is no virtue: {counts}"


@pytest.mark.slow
def test_of_thousands_of_damaged_cases_next_to_none_makes_a_wrong_verdict_sure() -> None:
    counts, failures = tried(4_000, seed=100_000)
    print(f"\n{sum(counts.values())} damaged cases: {dict(sorted(counts.items()))}")
    print("\n".join(failures))

    # One in a thousand at most: what some damage leaves reads like another, whole story.
    assert len({failure.partition(":")[0] for failure in failures}) <= 4


@pytest.mark.parametrize("name", judged("confidence"))
def test_the_undamaged_case_is_as_sure_as_its_evidence_allows(name: str) -> None:
    whole = Case(case(name).documents) if not case(name).coverage else case(name)
    verdict = diagnose(whole)

    assert wrongs(verdict, expected(name), ground(name).ranks, {}) == []
    if "confidence" in expected(name):
        assert verdict.cause.confidence == expected(name)["confidence"]
