"""The page as assistive technology has it: axe in a real Chromium finds nothing to complain of."""

import json
import re
from html import unescape
from pathlib import Path

import pytest

from firstfault.model import verdict as v
from firstfault.report import html as page
from tests.diagnosis.case_files import explain, files
from tests.report import verdicts as examples
from tests.report.test_chromium import CHROMIUM, dom, without_policy

# Installed by tests/setup.sh; the version in the folder's name is that of its package.
FOUND = sorted(Path("var").glob("axe-playwright-python==*/axe_playwright_python/axe.min.js"))

pytestmark = [
    pytest.mark.chromium,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.skipif(not FOUND, reason="axe is not installed (tests/run installs it)"),
]


def complaints(tmp_path: Path, text: str) -> list[str]:
    """What axe says against a page, by rule, with the elements."""
    axe = FOUND[-1].read_text().replace("</script", r"<\/script")
    asked = (
        "axe.run(document, {resultTypes: ['violations']}).then(all => {"
        " document.body.dataset.found = JSON.stringify(all.violations.map(each =>"
        " each.id + ': ' + each.nodes.map(node => node.html.slice(0, 120)).join(' | '))); });"
    )
    opened = without_policy(text).replace("<details", "<details open")
    file = tmp_path / "page.html"
    file.write_text(
        opened.replace("</body>", f"<script>{axe}</script><script>{asked}</script></body>")
    )
    found = re.search(r'<body[^>]* data-found="(.*?)"', dom(file, tmp_path / "profile"))
    assert found is not None
    return json.loads(unescape(found[1]))


def test_a_fault_would_be_found(tmp_path: Path):
    text = page.render(examples.NONE).replace('<html lang="en">', "<html>")

    assert [each.split(":")[0] for each in complaints(tmp_path, text)] == ["html-has-lang"]


CASES = [
    "live-oom-4n", "live-node-fail", "exc", "exc_all", "success", "t113-hang", "fabric-bus-lost",
    "s24-tasks-disk", "h213-limit-stacks", "s213-preempted",
]  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("verdict", [examples.UNKNOWN, examples.hostile()], ids=["unknown", "evil"])
def test_axe_finds_nothing_in_what_others_wrote(tmp_path: Path, verdict: v.Verdict, scheme: str):
    forced = "all" if scheme == "dark" else "not all"
    text = page.render(verdict).replace("(prefers-color-scheme: dark)", forced)

    assert complaints(tmp_path, text) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", CASES)
def test_axe_finds_nothing(tmp_path: Path, name: str, scheme: str):
    text = page.render(explain(files(name)))
    forced = "all" if scheme == "dark" else "not all"

    assert complaints(tmp_path, text.replace("(prefers-color-scheme: dark)", forced)) == []
