"""The recorded cases of tests/cases, as the tests take them."""

from __future__ import annotations

import io
import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from firstfault.diagnosis import diagnose
from firstfault.intake.files import gather
from firstfault.model import verdict as v
from firstfault.model.case import Case

CASES = Path(__file__).parent.parent / "cases"
NAMES = sorted(path.parent.name for path in CASES.glob("*/expected.toml"))
TRUTHS = ("expected.toml", "expected.json")


def expected(name: str) -> dict[str, Any]:
    return truth(CASES / name)


def truth(folder: Path) -> dict[str, Any]:
    """What a folder's expected.toml or expected.json says is true of it.

    The JSON form says null for what is not told and ``confirmed`` for whether the evidence allows
    to be sure; it comes back in the TOML form.
    """
    file = folder / "expected.toml"
    if file.exists():
        return tomllib.loads(file.read_text())
    found: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    if found.pop("confirmed", False):
        found["confidence"] = v.CONFIRMED
    return {key: value for key, value in found.items() if value is not None}


def judged(*asked: str) -> list[Any]:
    """The cases as parameters of a test of their verdict; one that is open must fail.

    ``asked`` are the words of what the test looks at, where that is not everything.
    """
    return [
        pytest.param(name, marks=pytest.mark.xfail(reason=reason, strict=True)) if reason else name
        for name in NAMES
        for reason in [_open(name, asked)]
    ]


# Why a verdict is not yet right in what a test looks at.
def _open(name: str, asked: tuple[str, ...]) -> str | None:
    reason: str | None = expected(name).get("open")
    if reason is None or not asked or any(word in reason for word in asked):
        return reason
    return None


def files(name: str) -> list[str]:
    """The case's evidence, without what the tests know of it."""
    return evidence(CASES / name)


def evidence(folder: Path) -> list[str]:
    """A folder's files, without what is true of it."""
    return [
        str(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in TRUTHS
    ]


@cache
def case(name: str) -> Case:
    """The case's evidence, read once."""
    return gather(files(name), {}, io.BytesIO()).case


def explain(paths: list[str], hosts: dict[str, str] | None = None) -> v.Verdict:
    return diagnose(gather(paths, hosts or {}, io.BytesIO()).case)
