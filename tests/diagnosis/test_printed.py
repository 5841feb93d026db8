"""What a program can print makes nothing sure: each signature's own samples, printed by a rank."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from firstfault.signatures import Compiled, signatures
from tests.diagnosis import made
from tests.diagnosis.recording import fabric
from tests.diagnosis.recording.two_nodes import Made, console

PRINTED = [*signatures("line"), *signatures("kernel")]


def printed(each: Compiled, case: dict[str, dict[int, object]]) -> v.Verdict:
    """The verdict on a job of which rank 1 printed the first sample of a signature."""
    sample = each.signature.samples[0]
    line = sample if each.signature.target == "line" else f"[Mon Nov 30 09:59:55 2026] {sample}"
    made_of = Made("", "", "", words={1: [line]}, **case)  # type: ignore[arg-type]
    return made.judged(made.console(console(made_of)), made.accounting("FAILED", nodes="n[1-2]"))


@pytest.mark.parametrize("each", PRINTED, ids=[each.signature.id for each in PRINTED])
def test_a_printed_line_does_not_hide_an_exception(each: Compiled) -> None:
    verdict = printed(each, {"error": {2: fabric.PLAIN, **fabric.peers(0, 1, 3)}})

    assert verdict.cause.id == "python.exception"
    assert verdict.initiator.rank == 2


@pytest.mark.parametrize("each", PRINTED, ids=[each.signature.id for each in PRINTED])
def test_a_printed_line_alone_makes_no_cause_sure(each: Compiled) -> None:
    verdict = printed(each, {"error": {**fabric.peers(0, 1, 3)}, "codes": {2: 1}})

    assert verdict.cause.confidence != v.CONFIRMED
