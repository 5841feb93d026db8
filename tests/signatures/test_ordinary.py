"""Nothing in 20,000 lines of what programs and kernels say on a good day means a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstfault.model import verdict as v
from firstfault.signatures import meaning
from tests.diagnosis.case_files import explain
from tests.diagnosis.recording.ordinary import LINES, PROGRAMS, ordinary, written


def test_there_are_twenty_thousand_lines() -> None:
    assert LINES * len(PROGRAMS) >= 20_000


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_signature_claims_a_failure_in_an_ordinary_line(program: str) -> None:
    target = "kernel" if program == "kernel" else "line"
    lines = list(ordinary(program))
    found = {
        (known.id, line)
        for line in lines
        for known in [meaning(target, line)]
        if known is not None and known.means != "finished"
    }

    assert len(lines) == LINES
    assert found == set()


def test_an_ordinary_log_gives_no_cause(tmp_path: Path) -> None:
    for path in written(tmp_path):
        verdict = explain([str(path)])

        assert verdict.cause.id in ("none", "unknown"), path.name
        assert verdict.cause.confidence != v.CONFIRMED or verdict.cause.id == "none"
