"""The overview, the list of failures and one failure in a real Chromium, used as their readers use
them: with scripts and without."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from firstfault.model import verdict as v
from tests.report.test_axe import FOUND as AXE
from tests.report.test_chromium import CHROMIUM
from tests.web.board_served import places, served
from tests.web.boards import ENDS, HOSTILE, End, Remembered, ends

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

pytestmark = [
    pytest.mark.chromium,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]

PHONE, TABLET, DESK = (
    {"width": 360, "height": 740},
    {"width": 820, "height": 1100},
    {"width": 1440, "height": 900},
)
# As narrow as tables get.
NARROW_TABLET, NARROW_DESK = {"width": 721, "height": 900}, {"width": 1001, "height": 700}
PAGES = (
    "/",
    "/?span=30d",
    "/?span=1y&cluster=main",
    "/failures",
    "/failures?domain=system&user=alice&since=2026-11-20",
    "/failures?since=x&domain=y&user=z",
    "/failures?sort=-lost",
    "/jobs/main/1",
    "/jobs/main/9",
)
LONG = (HOSTILE + "word " * 60 + "x" * 200)[:300]


def _hostile(end: End) -> End:
    """Everything that somebody else may write is hostile, and long."""
    facts = msgspec.structs.replace(
        end.facts, name=LONG, user=LONG, account=LONG, partition=LONG, state=LONG, reason=LONG
    )
    first = msgspec.structs.replace(end.verdict.initiator, host=LONG)
    cause = msgspec.structs.replace(end.verdict.cause, title=LONG)
    verdict = msgspec.structs.replace(end.verdict, cause=cause, initiator=first)
    return End(facts, (*end.nodes, LONG), verdict, end.at)


class Growing(Remembered):
    """A board to which failures come."""

    def __init__(self) -> None:
        super().__init__(ENDS[4:])

    def add(self, *new: End) -> None:
        self._ends = [*new, *self._ends]


BOARDS = {
    "a few": lambda: Remembered(ENDS),
    "nothing": lambda: Remembered([]),
    "one": lambda: Remembered(ENDS[:1]),
    "many": lambda: Remembered(ends(5000)),
    "hostile": lambda: Remembered([_hostile(each) for each in ENDS[:60]]),
}


def sizes(kind: str) -> tuple[dict[str, int], ...]:
    """The screens that a board of this kind is tried on."""
    return (PHONE, NARROW_TABLET, TABLET, NARROW_DESK, DESK) if kind == "a few" else (PHONE,)


def paths(kind: str) -> tuple[str, ...]:
    """The pages that there are over a board of this kind."""
    absent = {"nothing": "/jobs", "one": "/jobs/main/9"}.get(kind, "none")
    return tuple(path for path in PAGES if not path.startswith(absent))


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(places(BOARDS["a few"]())) as url:
        yield url


@contextmanager
def reading(browser: playwright.Browser, **options: object) -> Iterator[playwright.Page]:
    """A page of a new reader's. At its end nothing has been said on the console."""
    context = browser.new_context(**{"viewport": DESK, "timezone_id": "Asia/Tokyo", **options})
    said: list[str] = []
    page = context.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    try:
        yield page
        # An address that is refused is said by the browser itself.
        assert [each for each in said if "status of 400" not in each] == []
    finally:
        context.close()


@pytest.mark.parametrize(
    ("kind", "scripts"), [*((kind, True) for kind in BOARDS), ("a few", False), ("hostile", False)]
)
def test_every_page_fits_every_screen_and_the_console_stays_empty(
    browser: playwright.Browser, kind: str, scripts: bool
) -> None:
    wide = []
    with served(places(BOARDS[kind]())) as url:
        for size in sizes(kind):
            with reading(browser, viewport=size, java_script_enabled=scripts) as page:
                for path in paths(kind):
                    answer = page.goto(url + path)
                    assert answer is not None and answer.status in (200, 400)
                    # Without scripts of the page's own, the browser's can still be asked.
                    width = page.evaluate("document.documentElement.scrollWidth")
                    if width > size["width"]:
                        wide.append((path, size["width"], width))

    assert wide == []


@pytest.mark.skipif(not AXE, reason="axe is not installed (tests/run installs it)")
@pytest.mark.parametrize(
    ("kind", "size", "scheme"),
    [
        ("a few", DESK, "light"),
        ("a few", DESK, "dark"),
        ("a few", PHONE, "light"),
        ("nothing", DESK, "dark"),
        ("hostile", PHONE, "dark"),
    ],
)
def test_axe_finds_nothing(
    browser: playwright.Browser, kind: str, size: dict[str, int], scheme: str
) -> None:
    found = {}
    with (
        served(places(BOARDS[kind]())) as url,
        reading(browser, viewport=size, color_scheme=scheme, bypass_csp=True) as page,
    ):
        for path in paths(kind):
            page.goto(url + path)
            page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
            page.add_script_tag(path=str(AXE[-1]))
            violations = page.evaluate(
                "axe.run(document, {resultTypes: ['violations']}).then(all => all.violations.map("
                "each => each.id + ': ' + each.nodes.map(node => node.html.slice(0, 150))))"
            )
            if violations:
                found[path] = violations

    assert found == {}


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_the_administrator_goes_from_the_overview_to_the_first_fault(
    browser: playwright.Browser, address: str, scripts: bool
) -> None:
    with reading(browser, java_script_enabled=scripts) as page:
        page.goto(address)
        expect(page.locator(".lead")).to_contain_text("n07 looks sick.")
        page.get_by_role("link", name="Last 30 days").click()
        expect(page.locator(".lead")).to_contain_text("Since 2026-11-01 00:00 UTC")
        page.locator(".tiles .system a").click()
        expect(page.locator(".active")).to_contain_text("Who can act: the administrators")
        expect(page.locator("tbody tr")).to_have_count(39)
        page.locator("tbody tr th a").first.click()
        expect(page.locator("h1")).to_have_count(1)
        expect(page.get_by_role("heading", name="How the verdict came to be")).to_be_visible()


def test_a_bar_of_the_picture_leads_to_its_failures(
    browser: playwright.Browser, address: str
) -> None:
    with reading(browser) as page:
        page.goto(f"{address}/?span=30d")
        page.locator("svg.chart a").last.click()
        page.wait_for_url("**/failures?since=2026-11-30T00:00:00Z&until=2026-12-01T00:00:00Z")
        expect(page.locator("tbody tr")).to_have_count(37)


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_the_list_is_filtered_from_the_keyboard_alone(
    browser: playwright.Browser, address: str, scripts: bool
) -> None:
    with reading(browser, java_script_enabled=scripts) as page:
        page.goto(f"{address}/failures")
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        expect(page.get_by_label("Words")).to_be_focused()
        page.keyboard.type("uncorrectable")
        for _ in range(50):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.tagName") == "SUMMARY":
                break
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        expect(page.get_by_label("Cause")).to_be_focused()
        page.keyboard.type("gpu.")
        page.keyboard.press("Escape")
        page.keyboard.press("Enter")
        page.wait_for_url("**/failures?text=uncorrectable&cause=gpu.")
        expect(page.locator("tbody tr").first).to_contain_text("gpu.ecc")
        page.get_by_role("link", name="Without Cause").click()
        page.wait_for_url("**/failures?text=uncorrectable")


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_the_filter_is_folded_on_a_phone_and_what_it_filters_is_said(
    browser: playwright.Browser, address: str, scripts: bool
) -> None:
    with reading(browser, viewport=PHONE, java_script_enabled=scripts) as page:
        page.goto(f"{address}/failures")
        since, user = page.get_by_label("Ended from (UTC)"), page.locator("#f-user")
        for field in (since, user):
            expect(field).to_be_hidden()
        first = page.locator("tbody tr").first.bounding_box()
        assert first is not None and first["y"] < PHONE["height"] * 0.55
        page.get_by_text("More filters").click()
        expect(since).to_be_visible()
        user.fill("alice")
        page.get_by_role("button", name="Show", exact=True).click()
        page.wait_for_url("**/failures?user=alice")
        expect(user).to_be_hidden()
        expect(page.locator(".active")).to_contain_text("User: alice")
        page.get_by_role("link", name="Without User").click()
        page.wait_for_url("**/failures")


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_what_was_typed_wrong_is_still_there(
    browser: playwright.Browser, address: str, scripts: bool
) -> None:
    with reading(browser, java_script_enabled=scripts) as page:
        page.goto(f"{address}/failures?since=yesterday&user=bob")
        expect(page.get_by_role("alert")).to_contain_text("Ended from (UTC): A time is written")
        expect(page.get_by_label("Ended from (UTC)")).to_have_value("yesterday")
        expect(page.get_by_label("User")).to_have_value("bob")
        page.get_by_label("Ended from (UTC)").fill("2026-11-29")
        page.get_by_role("button", name="Show", exact=True).click()
        page.wait_for_url("**/failures?since=2026-11-29T00%3A00%3A00Z&user=bob")


def test_the_list_goes_on_and_is_sorted(browser: playwright.Browser, address: str) -> None:
    with reading(browser) as page:
        page.goto(f"{address}/failures")
        page.get_by_role("link", name="Lost", exact=True).click()
        expect(page.locator("[aria-sort=descending]")).to_contain_text("Lost")
        first = page.locator("tbody tr").first.get_attribute("data-key")
        page.get_by_role("link", name="Older").click()
        page.get_by_role("link", name="Newer").click()
        expect(page.locator("tbody tr").first).to_have_attribute("data-key", str(first))


def test_new_failures_are_told_of_and_shown(browser: playwright.Browser) -> None:
    board = Growing()
    with served(places(board)) as url, reading(browser) as page:
        page.goto(f"{url}/failures")
        expect(page.locator(".live")).to_be_hidden()
        page.wait_for_timeout(1000)
        board.add(*ENDS[2:4])
        notice = page.get_by_role("status")
        expect(notice).to_contain_text("2 new failures", timeout=15000)
        board.add(ENDS[1])
        expect(notice).to_contain_text("3 new failures", timeout=15000)
        notice.get_by_role("link").click()
        expect(page.locator("tbody tr").first).to_have_attribute(
            "data-key", "/jobs/main/2?incarnation=1"
        )
        expect(page.locator(".live")).to_be_hidden()


def test_the_list_of_a_filter_hears_of_what_meets_it_alone(browser: playwright.Browser) -> None:
    board = Growing()
    with served(places(board)) as url, reading(browser) as page:
        page.goto(f"{url}/failures?cause=python.")
        page.wait_for_timeout(1000)
        board.add(ENDS[0])
        page.wait_for_timeout(3000)
        expect(page.locator(".live")).to_be_hidden()
        board.add(ENDS[2])
        expect(page.locator(".live")).to_contain_text("1 new failure.", timeout=15000)


def test_the_newest_on_the_overview_come_by_themselves(browser: playwright.Browser) -> None:
    board = Growing()
    with served(places(board)) as url, reading(browser) as page:
        page.goto(url)
        page.wait_for_timeout(1500)
        board.add(_hostile(ENDS[0]))
        first = page.locator("[data-newest] tbody tr").first
        expect(first).to_have_attribute("data-key", "/jobs/main/1?incarnation=1", timeout=20000)
        expect(first).to_have_class(re.compile("fresh"))
        expect(first).to_contain_text("<script>alert(1)</script>")
        expect(page.locator(".live")).to_contain_text("1 new failure.")


def test_a_revised_verdict_is_no_new_failure(browser: playwright.Browser) -> None:
    board = Growing()
    with served(places(board)) as url, reading(browser) as page:
        page.goto(f"{url}/failures")
        page.wait_for_timeout(1000)
        end = board._ends[0]
        cause = msgspec.structs.replace(end.verdict.cause, title="revised", confidence=v.LIKELY)
        verdict = msgspec.structs.replace(end.verdict, cause=cause)
        # The board's number changes with each verdict; here it is how many there are.
        board._ends = [end._replace(verdict=verdict), *board._ends]
        page.wait_for_timeout(3000)
        expect(page.locator(".live")).to_be_hidden()


def test_times_are_local_where_the_reader_wants_it_and_stay_so(
    browser: playwright.Browser, address: str
) -> None:
    with reading(browser) as page:
        page.goto(f"{address}/failures")
        first = page.locator("tbody time").first
        expect(first).to_have_text("2026-11-30 15:55")
        expect(first).to_have_attribute("title", "2026-12-01 00:55 local time")
        page.get_by_role("button", name="show my local time").click()
        expect(first).to_have_text("2026-12-01 00:55")
        expect(page.locator("thead")).to_contain_text("Ended (local)")
        page.reload()
        expect(first).to_have_text("2026-12-01 00:55")
        page.get_by_role("button", name="show UTC").click()
        expect(first).to_have_text("2026-11-30 15:55")


def test_nothing_that_a_job_wrote_runs_or_leads_away(browser: playwright.Browser) -> None:
    with served(places(BOARDS["hostile"]())) as url, reading(browser) as page:
        page.on("dialog", lambda dialog: pytest.fail("a script of a job's name ran"))
        for path in PAGES:
            page.goto(url + path)
            links = page.eval_on_selector_all(
                "a[href]",
                "all => all.map(each => new URL(each.getAttribute('href'), location).href)",
            )
            assert [each for each in links if not each.startswith(url)] == []
            assert page.locator("script:not([src])").count() == 0
            assert page.locator("img").count() == 0
