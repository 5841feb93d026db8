"""The score counts what is right, and shows first what is wrong and sure."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnosis import score
from tests.diagnosis.case_files import CASES
from tests.diagnosis.score import Scored


def result(name: str, cause: str = "python.exception", **changes: object) -> Scored:
    truth = {"cause": ["python.exception"], "rank": 1, "host": "n2", "confidence": "confirmed"}
    values = {"truth": truth, "confidence": "confirmed", "rank": 1, "host": "n2"}
    values |= {"who": "confirmed", "quoted": ""} | changes
    return Scored(name, cause=cause, **values)  # type: ignore[arg-type]


def test_a_case_with_its_right_verdict_is_counted_as_right() -> None:
    lines = score.report([result("a")])

    assert "cause right                    1 of 1 (100 %)" in lines
    assert "confirmed, where allowed       1 of 1 (100 %)" in lines
    assert "sure and wrong                 0" in lines


def test_what_is_wrong_and_sure_stands_before_what_is_only_wrong() -> None:
    doubted = result("a", "unknown", confidence="unknown", who="unknown", rank=None, host=None)

    lines = score.report([doubted, result("b", "process.killed")])

    assert lines[-2].startswith("SURE     b:")
    assert lines[-1].startswith("wrong    a:")


def test_a_sure_rank_that_the_evidence_does_not_tell_is_shown() -> None:
    lines = score.report([result("a", truth={"cause": ["python.exception"]})])

    assert lines[-1].startswith("too sure a:")


def test_any_of_several_ranks_that_failed_alike_is_right() -> None:
    truth = {"cause": ["python.exception"], "rank": 0, "host": "n1", "also": [1]}

    assert not result("a", truth=truth).wrong


def test_a_case_that_cannot_be_judged_is_wrong_and_says_why() -> None:
    lines = score.report([result("a", "", failure="ValueError: no")])

    assert lines[-1] == "FAILED  a: ValueError: no"


def test_the_truth_may_stand_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = tmp_path / "one"
    case.mkdir()
    (case / "out.txt").write_bytes((CASES / "exc/slurm.out").read_bytes())
    (case / "expected.json").write_text(
        '{"cause": ["python.exception"], "rank": 4, "host": null, "confirmed": true, "key": "got 5"}'
    )

    status = score.main([str(tmp_path)])

    assert status == 0
    assert "rank right, where told         1 of 1 (100 %)" in capsys.readouterr().out


def test_a_folder_without_cases_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert score.main([str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err
