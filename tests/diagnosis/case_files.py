"""The recorded cases of tests/cases, as the tests take them."""

from __future__ import annotations

import io
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from firstfault.diagnosis import diagnose
from firstfault.intake.files import gather
from firstfault.model import verdict as v
from firstfault.model.case import Case

CASES = Path(__file__).parent.parent / "cases"
NAMES = sorted(path.parent.name for path in CASES.glob("*/expected.toml"))


def expected(name: str) -> dict[str, Any]:
    return tomllib.loads((CASES / name / "expected.toml").read_text())


def files(name: str) -> list[str]:
    """The case's evidence, without what the tests know of it."""
    return [
        str(path)
        for path in sorted((CASES / name).rglob("*"))
        if path.is_file() and path.name != "expected.toml"
    ]


@cache
def case(name: str) -> Case:
    """The case's evidence, read once."""
    return gather(files(name), {}, io.BytesIO()).case


def explain(paths: list[str], hosts: dict[str, str] | None = None) -> v.Verdict:
    return diagnose(gather(paths, hosts or {}, io.BytesIO()).case)
