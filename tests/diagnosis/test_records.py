"""What is judged from the collector's record is the verdict from the full logs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firstfault.diagnosis import diagnose
from firstfault.model import verdict as v
from firstfault.model.case import Case
from tests.diagnosis.case_files import NAMES, case
from tests.diagnosis.cut_logs import grown, recorded


# All that is said of the failure; how much was read is not the same, and shows in the rest.
def answer(evidence: Case) -> dict[str, Any]:
    verdict = diagnose(evidence)
    said = msgspec.to_builtins(verdict)
    kept = ("job", "cause", "initiator", "exception", "alternatives", "fingerprint", "remedy")
    kept = (*kept, "surroundings")
    texts = [each["text"] for each in said["evidence"]]
    return {**{name: said[name] for name in kept}, "evidence": texts}


@pytest.mark.parametrize("name", NAMES)
def test_a_record_gives_the_verdict_of_the_full_logs(name: str) -> None:
    full = grown(case(name))

    assert answer(recorded(full)) == answer(full)


# Work before these would be another story: nothing had begun, or another step had; what could not
# start had worked.
OTHERWISE = {
    "made-execve-denied",
    "s24-interpreter",
    "s24-layout",
    "s24-steps",
    "s27-command",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*NAMES} - OTHERWISE))
def test_ordinary_lines_before_a_failure_change_nothing(name: str) -> None:
    verdict, before = diagnose(grown(case(name))), diagnose(case(name))

    assert verdict.cause.id == before.cause.id
    assert verdict.cause.confidence == before.cause.confidence
    assert (verdict.initiator.rank, verdict.initiator.host) == (
        before.initiator.rank,
        before.initiator.host,
    )
    assert verdict.initiator.confidence == before.initiator.confidence or (
        before.cause.id == v.UNKNOWN
    )
