"""Every event that the daemon logs is described, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DAEMON = ROOT / "daemon" / "firstfault"
# Which argument of a call is the event.
POSITIONS = {"say": 1, "trouble": 0, "exception": 0, "debug": 0, "warning": 0}
PAGE = ROOT / "docs" / "daemon.md"


def logged() -> Iterator[str]:
    for path in sorted(set(DAEMON.rglob("*.py")) - {DAEMON / "app" / "journal.py"}):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                position = POSITIONS.get(name)
                if position is not None and len(node.args) > position:
                    event = node.args[position]
                    assert isinstance(event, ast.Constant), f"{path}:{node.lineno}"
                    yield str(event.value)


def described() -> set[str]:
    table = PAGE.read_text("utf-8").partition("\n## The log")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    return {event for row in rows for event in re.findall(r"`([a-z-]+)`", row)}


def test_the_page_describes_every_event_and_no_other() -> None:
    # The log itself says these two.
    assert sorted(described() - {"library", "crashed"}) == sorted(set(logged()))
