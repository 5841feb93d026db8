"""Nothing that healthy programs and kernels say means a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstfault.model import verdict as v
from firstfault.signatures import meaning, signatures
from tests.diagnosis import made
from tests.diagnosis.case_files import explain

HEALTHY = Path(__file__).parent.parent / "healthy"
LOGS = sorted(path.name for path in HEALTHY.glob("*.*") if path.name != "README.md")


@pytest.mark.parametrize("name", LOGS)
def test_no_signature_matches_a_healthy_line(name: str) -> None:
    target = "kernel" if name.startswith("kernel") else "line"
    lines = (HEALTHY / name).read_text(errors="replace").splitlines()

    found = {
        (matched.id, line)
        for line in lines
        for matched in [meaning(target, line)]
        if matched is not None and matched.means != "finished"
    }

    assert len(lines) > 3
    assert signatures(target)
    assert found == set()


@pytest.mark.parametrize("name", LOGS)
def test_a_healthy_log_gives_no_cause(name: str) -> None:
    verdict = explain([str(HEALTHY / name)])

    assert verdict.cause.id in ("none", "unknown")
    assert verdict.cause.confidence != v.CONFIRMED or verdict.cause.id == "none"


@pytest.mark.parametrize("name", [name for name in LOGS if name.startswith("good-")])
@pytest.mark.parametrize(
    "state", [("FAILED", "1:0"), ("FAILED", "0:9"), ("OUT_OF_MEMORY", "0:125")]
)
def test_what_was_taken_care_of_is_not_surely_why_a_job_failed(
    name: str, state: tuple[str, str]
) -> None:
    lines = (HEALTHY / name).read_text().splitlines()
    verdict = made.judged(made.console(lines), made.accounting(*state))

    assert verdict.cause.confidence != v.CONFIRMED
