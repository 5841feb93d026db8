"""The Grafana board and the alert rules: whole, readable by their programs, about what exists."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.app.test_metrics import documented

ROOT = Path(__file__).parents[2]
BOARD = ROOT / "etc" / "grafana" / "firstfault.json"
RULES = ROOT / "etc" / "prometheus" / "firstfault-rules.yml"
RULE_TESTS = Path(__file__).with_name("rules-tests.yml")

# Of what prometheus_client says of the process; docs/metrics.md names them together.
PROCESS = {
    f"firstfault_process_{name}"
    for name in ("cpu_seconds_total", "resident_memory_bytes", "open_fds", "max_fds")
}


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(BOARD.read_text("utf-8"))["panels"]
    return found


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions() -> dict[str, str]:
    """Every expression of the board and the rules by where it stands."""
    board = {
        f"{panel['title']} {target['refId']}": target["expr"].replace("$__rate_interval", "5m")
        for panel in panels()
        for target in panel.get("targets", ())
    }
    return board | {rule["alert"]: rule["expr"] for rule in rules()}


def selectors(expression: promql.Expr) -> Iterator[promql.VectorSelector]:
    """The series that an expression reads."""
    if isinstance(expression, promql.VectorSelector):
        yield expression
    elif isinstance(expression, promql.MatrixSelector):
        yield expression.vector_selector
    elif isinstance(expression, promql.BinaryExpr):
        yield from (*selectors(expression.lhs), *selectors(expression.rhs))
    elif isinstance(expression, promql.Call):
        for argument in expression.args:
            yield from selectors(argument)
    elif hasattr(expression, "expr"):
        yield from selectors(expression.expr)


EVERY = expressions()


@pytest.mark.parametrize("where", EVERY)
def test_an_expression_reads_only_metrics_and_labels_that_exist(where: str) -> None:
    known = {name: labels for name, (_, labels) in documented().items()}
    read = list(selectors(promql.parse(EVERY[where])))

    assert read
    for selector in read:
        name = str(selector.name)
        if name == "up" or name in PROCESS:
            continue
        series = re.sub(r"_bucket$", "", name)
        labels = {matcher.name for matcher in selector.matchers.matchers}
        assert series in known, f"{where}: {name}"
        assert labels <= {*known[series], "instance", "job"}, f"{where}: {labels}"


def test_every_metric_is_on_the_board() -> None:
    text = BOARD.read_text("utf-8")

    assert [name for name in documented() if not re.search(rf"\b{name}(_bucket)?\b", text)] == []


def test_grafana_reads_the_board() -> None:
    written = json.loads(BOARD.read_text("utf-8"))

    read = Dashboard.from_json(written)

    again = json.loads(JSONEncoder().encode(read))
    assert [panel["title"] for panel in again["panels"]] == [each["title"] for each in panels()]
    assert again["templating"]["list"][1]["name"] == "instance"


def test_no_panel_covers_another_and_each_is_told_apart() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not taken & cells, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells

    ids = [panel["id"] for panel in panels()]
    assert len(set(ids)) == len(ids)


def test_each_alert_says_what_is_the_case_what_it_means_and_what_to_do() -> None:
    for rule in rules():
        assert set(rule["annotations"]) == {"summary", "means", "do"}, rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["alert"].startswith("Firstfault")


def test_events_that_an_alert_sends_one_to_are_logged_by_the_daemon() -> None:
    page = (ROOT / "docs" / "daemon.md").read_text("utf-8")

    for rule in rules():
        for event in re.findall(r"\b[a-z]+(?:-[a-z]+)+\b", rule["annotations"]["do"]):
            known = f"`{event}`" in page or event in ("firstfault-epilog",)
            assert known, f"{rule['alert']}: {event}"


def test_the_docs_name_each_alert() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")

    named = set(re.findall(r"`(Firstfault\w+)`", page))
    assert named == {rule["alert"] for rule in rules()}


# tests/setup.sh puts it beside Python.
PROMTOOL = shutil.which("promtool") or shutil.which(
    "promtool", path=str(Path(sys.executable).parent)
)
promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)"
)


@promtool
def test_prometheus_takes_the_rules() -> None:
    done = subprocess.run(
        [str(PROMTOOL), "check", "rules", str(RULES)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


@promtool
def test_each_alert_comes_when_it_must_and_only_then() -> None:
    done = subprocess.run(
        [str(PROMTOOL), "test", "rules", str(RULE_TESTS)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    tried = re.findall(r"alertname: (\w+)", RULE_TESTS.read_text("utf-8"))
    assert set(tried) == {rule["alert"] for rule in rules()}
