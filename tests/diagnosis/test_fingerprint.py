"""The same failure in another job has the same fingerprint; another failure has not."""

from __future__ import annotations

import itertools
import re
from functools import cache

import msgspec
import pytest

from firstfault.diagnosis import diagnose
from firstfault.judge.fingerprint import plain
from firstfault.model import verdict as v
from firstfault.model.case import Case
from tests.diagnosis.case_files import NAMES, case, expected

# What another job of the same program has otherwise: hosts, folders, numbers of jobs and pids.
ANOTHER = (
    (re.compile(rb"(?<![\w/.-])n([1-4])(?![\w-])"), rb"gpu-rack7-0\1"),
    (re.compile(rb"/home/alice"), b"/lustre/proj/bob9"),
    (re.compile(rb"/scratch/ranks"), b"/gpfs/run-81/logs"),
    (re.compile(rb"\(pid: (\d+)\)"), rb"(pid: 7\1)"),
    (re.compile(rb"process (\d+) closing"), rb"process 7\1 closing"),
    (re.compile(rb"StepId=(\d+)"), rb"StepId=9\1"),
)


@cache
def verdict(name: str) -> v.Verdict:
    return diagnose(case(name))


def elsewhere(evidence: Case) -> Case:
    documents = []
    for document in evidence.documents:
        excerpts = []
        for excerpt in document.excerpts:
            data = excerpt.data
            for pattern, instead in ANOTHER:
                data = pattern.sub(instead, data)
            excerpts.append(msgspec.structs.replace(excerpt, stored=data, like=None))
        documents.append(msgspec.structs.replace(document, excerpts=tuple(excerpts)))
    return msgspec.structs.replace(evidence, documents=tuple(documents), facts=None)


# Accounting, Epilogs and records name the job and its nodes by fields of their own.
def consoles(name: str) -> Case:
    kept = tuple(
        each
        for each in case(name).documents
        if each.name.endswith(("slurm.out", "console.txt", "stderr.log", "stdout.log"))
    )
    return Case(kept)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_failure_in_another_job_has_the_same_fingerprint(name: str) -> None:
    here, there = diagnose(consoles(name)), diagnose(elsewhere(consoles(name)))

    assert there.cause.id == here.cause.id
    assert there.fingerprint == here.fingerprint


# What tells two failures apart for a person: the cause and, for an exception, what was raised.
def failure(name: str) -> tuple[str, ...]:
    found = verdict(name)
    message = plain(found.exception.message or "", ())
    return found.cause.id, found.exception.type or "", message


def alike() -> list[tuple[str, str]]:
    """The pairs of cases whose verdicts have the same fingerprint."""
    groups: dict[str, list[str]] = {}
    for name in NAMES:
        if (fingerprint := verdict(name).fingerprint) is not None:
            groups.setdefault(fingerprint, []).append(name)
    return [pair for group in groups.values() for pair in itertools.combinations(group, 2)]


def test_different_failures_have_different_fingerprints() -> None:
    assert [pair for pair in alike() if failure(pair[0]) != failure(pair[1])] == []


def test_cases_of_different_truth_have_different_fingerprints() -> None:
    different = [
        (one, other)
        for one, other in alike()
        if not set(expected(one)["cause"]) & set(expected(other)["cause"])
    ]

    assert [pair for pair in different if "open" not in expected(pair[0])] == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("failed on n1: /a/b/x.pt", "failed on n2: /c/d/x.pt"),
        ("worker 17 of 64 gone after 3.5e-3 s", "worker 2 of 8 gone after 1.25 s"),
        ("no such file /tmp/tmpab12cd34/y", "no such file /tmp/tmpzz99xx11/y"),
        (
            "run 3f2a9b1c-1111-2222-3333-444455556666 lost",
            "run 0b8e77aa-9999-8888-7777-666655554444 lost",
        ),
        ("at 0x7f0012", "at 0x55aa"),
    ],
)
def test_what_differs_from_job_to_job_is_taken_out_of_a_message(one: str, other: str) -> None:
    assert plain(one, ("n1", "n2")) == plain(other, ("n1", "n2"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("KeyError: 'tokenizer'", "KeyError: 'mask'"),
        ("expected features", "expected labels"),
        ("the facade", "the decade"),
    ],
)
def test_words_stay_in_a_message(one: str, other: str) -> None:
    assert plain(one, ()) != plain(other, ())
