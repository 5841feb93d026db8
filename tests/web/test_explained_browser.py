"""Reports that are kept, in a real Chromium: with scripts and without, on a phone, by axe."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from firstfault.model.board import Reader
from firstfault.model.explained import Explained
from firstfault.model.verdict import Cause, Job, Verdict
from firstfault.web import api
from tests.report.test_axe import FOUND as AXE
from tests.web.api_served import Quick
from tests.web.board_served import places, served
from tests.web.boards import HOSTILE, Remembered
from tests.web.kept import keeping
from tests.web.test_access_browser import evil
from tests.web.test_board_pages_browser import (
    CASE,
    PHONE,
    SCRIPTS,
    browser,
    follow,
    playwright,
    pytestmark,
    reading,
)

__all__ = ["browser", "pytestmark"]

ANYONE = Reader("anyone", administrator=True)
LONG = HOSTILE + "x" * 200


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with (
        keeping(f"sqlite:///{tmp_path}/ff.db") as (keeper, _),
        served(places(Remembered([]), None, keeper)) as address,
    ):
        yield address


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Addresses of pages with many reports, of which some are hostile."""
    url = f"sqlite:///{tmp_path_factory.mktemp('kept')}/ff.db"
    found = Explained(Verdict(Job(id="7"), Cause("gpu.ecc", LONG, "system", "likely")), (LONG,) * 9)
    with keeping(url) as (keeper, _):
        made = [keeper.keep(ANYONE, found, title) for title in (*["train-7b"] * 55, LONG)]
        with served(places(Remembered([]), None, keeper)) as address:
            paths = ("/explain", f"/explained/{made[0].id}", f"/explained/{made[-1].id}")
            yield [address + path for path in paths]


@SCRIPTS
def test_a_report_is_kept_read_again_and_forgotten(
    browser: playwright.Browser, address: str, scripts: bool
) -> None:
    with reading(browser, java_script_enabled=scripts) as page:
        page.goto(address + "/explain")
        page.get_by_label("Paste a log").fill((CASE / "slurm.out").read_text())
        page.get_by_label("Keep the report").check()
        page.get_by_label("Its title").fill("the first try")
        follow(page, "main button.primary")
        assert "/explained/" in page.url
        kept = page.url
        assert "Rank 4 on n3 raised ValueError" in page.inner_text("h1")
        assert page.input_value("#link").startswith("https://faults.example.org/shared/")
        page.reload()  # nothing is sent again
        follow(page, "text=Explain another")
        assert not page.get_by_label("Keep the report").is_checked()
        follow(page, "text=the first try")
        assert page.url == kept
        follow(page, "text=Forget it now")
        assert page.inner_text("[role=status]") == "The report is forgotten."
        assert page.locator("text=the first try").count() == 0


@SCRIPTS
def test_one_of_several_is_forgotten_from_the_list(
    browser: playwright.Browser, shown: list[str], scripts: bool
) -> None:
    with reading(browser, java_script_enabled=scripts) as page:
        page.goto(shown[0])
        follow(page, "a[rel=next]")
        rows = page.locator("table tbody tr").count()
        follow(page, page.get_by_role("button", name="Forget train-7b").last)
        follow(page, "a[rel=next]")
        assert page.locator("table tbody tr").count() == rows - 1


@SCRIPTS
def test_no_page_of_kept_reports_is_wider_than_a_phone(
    browser: playwright.Browser, shown: list[str], scripts: bool
) -> None:
    with reading(browser, viewport=PHONE, java_script_enabled=scripts) as page:
        for url in (shown[0], shown[2]):
            page.goto(url)

            assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"], url
            assert page.locator("main script, main img, main iframe").count() == 0


@pytest.mark.skipif(not AXE, reason="axe is not installed (tests/run installs it)")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_pages_of_kept_reports(
    browser: playwright.Browser, shown: list[str], scheme: str
) -> None:
    with reading(browser, color_scheme=scheme) as page:
        for url in (shown[0], shown[2]):
            page.goto(url)
            page.evaluate(AXE[-1].read_text())
            result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")

            assert [
                (each["id"], [node["html"][:200] for node in each["nodes"]][:3])
                for each in result["violations"]
            ] == []


# What a page can make a browser send as it would send a form: with whatever its reader is known by.
ATTACK = """<!DOCTYPE html><title>evil</title><body>
<form id="f" method="post" enctype="text/plain" target="one" action="{api}?keep=true">
<input name="srun: error: n1: task 0" value="Killed"></form>
<form id="g" method="post" enctype="multipart/form-data" target="two" action="{pages}/explain">
<input name="log" value="Killed"><input name="keep" value="1"></form>
<form id="h" method="post" target="three" action="{pages}/explained/{kept}/forget"></form>
<iframe name="one"></iframe><iframe name="two"></iframe><iframe name="three"></iframe>
<script>
f.submit(); g.submit(); h.submit();
const file = new FormData();
file.append("file", new Blob(["Killed"]), "a.log");
const send = (body, type) => fetch("{api}?keep=true", {{
  method: "POST", mode: type ? "cors" : "no-cors", credentials: "include", body,
  headers: type ? {{"content-type": type}} : {{}}}});
Promise.allSettled([send("Killed"), send(file), send("Killed", "application/octet-stream"),
  new Promise(done => setTimeout(done, 1500))]).then(() => document.title = "tried");
</script>"""


def test_a_page_of_another_site_keeps_and_forgets_nothing(
    browser: playwright.Browser, tmp_path: Path
) -> None:
    found = Explained(Verdict(Job(id="7"), Cause("gpu.ecc", "x", "system", "likely")))
    with keeping(f"sqlite:///{tmp_path}/ff.db") as (keeper, _):
        kept = keeper.keep(ANYONE, found, "mine")
        all_places = [
            *places(Remembered([]), None, keeper),
            *api.places(Remembered([]), Quick(), None, keeper),
        ]
        with served(all_places) as address:
            page_of_theirs = ATTACK.format(
                pages=address, api=f"{address}/api/v1/explain", kept=kept.id
            )
            with evil(page_of_theirs) as port:
                context = browser.new_context()
                page = context.new_page()
                page.goto(f"http://127.0.0.1:{port}/")
                page.wait_for_function("document.title === 'tried'")
                context.close()

        assert keeper.listed(ANYONE).reports == (kept,)
