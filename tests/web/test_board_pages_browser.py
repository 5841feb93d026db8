"""Pages of nodes, causes, fingerprints, incidents, deliveries, health and explain in a real
Chromium, used as their readers use them: with scripts and without."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from firstfault.model import board as b
from firstfault.model import jobs as j
from tests.report.test_axe import FOUND as AXE
from tests.report.test_chromium import CHROMIUM
from tests.web.board_served import PAGES, places, served
from tests.web.boards import ENDS, HOSTILE, NOW, Remembered

playwright = pytest.importorskip("playwright.sync_api")

pytestmark = [
    pytest.mark.chromium,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]

CASE = Path(__file__).parents[1] / "cases" / "exc"
PHONE, DESK = {"width": 360, "height": 800}, {"width": 1440, "height": 900}
# As narrow as tables get.
NARROW_TABLET, NARROW_DESK = {"width": 721, "height": 900}, {"width": 1001, "height": 700}
KINDS = ("a few", "nothing", "many", "hostile")


class Many(Remembered):
    """A cluster of 3,000 nodes, of which most are only there."""

    def nodes(self, *asked: object) -> tuple[b.NodeStanding, ...]:
        few = super().nodes(*asked)  # type: ignore[arg-type]
        more = (
            b.NodeStanding(
                f"rack{n // 64:02d}-node{n:04d}", "main", n % 3, 5 + n % 20, 1.5, 0.01, 0.4, 0.7,
                False, NOW, (), ("IDLE", "MIXED+DRAIN", None)[n % 3], "a fan" if n % 3 else None,
            )
            for n in range(3000)
        )  # fmt: skip
        return (*few, *more)

    def health(self, reader: b.Reader) -> b.Health | None:
        usual = super().health(reader)
        assert usual is not None
        return msgspec.structs.replace(usual, silent=usual.silent * 3000)

    def silences(self, reader: b.Reader) -> tuple[j.Silence, ...]:
        until = NOW + dt.timedelta(hours=8)
        return tuple(
            j.Silence("main", j.NODE, f"n{n:04d}", until, "slurm", "upgrade") for n in range(3000)
        )


LONG = HOSTILE + "x" * 200


class Hostile(Remembered):
    """Everything that somebody else may write is hostile, and long."""

    def nodes(self, *asked: object) -> tuple[b.NodeStanding, ...]:
        few = super().nodes(*asked)  # type: ignore[arg-type]
        odd = {"node": LONG, "cluster": LONG, "state": LONG, "reason": LONG}
        return (*(msgspec.structs.replace(each, **odd) for each in few[:3]), *few)

    def fingerprints(
        self, reader: b.Reader, page: str | None = None, limit: int = 50
    ) -> b.FingerprintPage:
        usual = super().fingerprints(reader, page, limit)
        odd = {"title": LONG, "note": LONG, "noted_by": LONG, "back": True}
        found = tuple(msgspec.structs.replace(each, **odd) for each in usual.fingerprints)
        return msgspec.structs.replace(usual, fingerprints=found)

    def incidents(self, reader: b.Reader, only_open: bool = False) -> tuple[j.Incident, ...]:
        odd = {"names": (LONG,) * 20, "hosts": (LONG,) * 20, "causes": ((LONG, 3),) * 9}
        return tuple(
            msgspec.structs.replace(
                each, key=key, kind=kind, name=LONG, cluster=LONG, acknowledged_by=LONG, **odd
            )
            for key, kind in enumerate(j.KINDS, 1)
            for each in super(Hostile, self).incidents(reader, only_open)[:1]
        )

    def silences(self, reader: b.Reader) -> tuple[j.Silence, ...]:
        until = NOW + dt.timedelta(hours=8)
        return (
            j.Silence(LONG, LONG, LONG, until, LONG),
            j.Silence(LONG, j.NODE, LONG, until, LONG, LONG),
        )

    def deliveries(
        self, reader: b.Reader, state: str | None = None
    ) -> tuple[j.DeliveryStatus, ...]:
        odd = {"delivery_id": LONG, "cluster": LONG, "job": LONG, "channel": LONG, "error": LONG}
        usual = super().deliveries(reader, state)
        return tuple(msgspec.structs.replace(each, **odd) for each in usual)

    def health(self, reader: b.Reader) -> b.Health | None:
        usual = super().health(reader)
        assert usual is not None
        silent = b.SilentNode(LONG, LONG, None, 10**12)
        odd = {"store": LONG, "states": {LONG: 3}, "silent": (silent,) * 9}
        return msgspec.structs.replace(usual, **odd)


BOARDS = {
    "a few": lambda: Remembered(ENDS),
    "nothing": lambda: Remembered([]),
    "many": lambda: Many(ENDS),
    "hostile": lambda: Hostile(ENDS),
}


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def addresses() -> Iterator[dict[str, str]]:
    with (
        served(places(BOARDS["a few"]())) as few,
        served(places(BOARDS["nothing"]())) as nothing,
        served(places(BOARDS["many"]())) as many,
        served(places(BOARDS["hostile"]())) as hostile,
    ):
        yield {"a few": few, "nothing": nothing, "many": many, "hostile": hostile}


@contextmanager
def reading(browser: playwright.Browser, **options: object) -> Iterator[playwright.Page]:
    """A page of a new reader's. At its end nothing has been said on the console."""
    context = browser.new_context(**{"viewport": DESK, **options})
    said: list[str] = []
    page = context.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    # A mark that is still on its way when the reader goes on is given up by the browser itself.
    page.on("requestfailed", lambda request: said.extend(_failed(request)))
    try:
        yield page
        assert said == []
    finally:
        context.close()


def _failed(request: playwright.Request) -> list[str]:
    return [] if request.failure == "net::ERR_ABORTED" else [f"{request.failure}: {request.url}"]


def follow(page: playwright.Page, target: str | playwright.Locator) -> None:
    """Clicks on what leads to another page, and waits for that."""
    with page.expect_navigation():
        (page.locator(target).first if isinstance(target, str) else target).click()


SCRIPTS = pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])


@SCRIPTS
@pytest.mark.parametrize("kind", KINDS)
def test_no_page_is_wider_than_its_screen_or_says_a_word_on_the_console(
    browser: playwright.Browser, addresses: dict[str, str], kind: str, scripts: bool
) -> None:
    wide = []
    with reading(browser, viewport=PHONE, java_script_enabled=scripts) as page:
        for path in PAGES:
            if kind == "nothing" and path.startswith("/nodes/"):
                continue
            page.goto(addresses[kind] + path)
            for details in page.locator("details").all():
                details.locator("summary").first.click()
            for size in (PHONE, NARROW_TABLET, NARROW_DESK):
                page.set_viewport_size(size)
                width = page.evaluate("document.documentElement.scrollWidth")
                if width > size["width"]:
                    wide.append((path, size["width"], width))
            # Nothing that somebody else wrote has become an element.
            assert page.locator("main script, main img, main iframe").count() == 0

    assert wide == []


@pytest.mark.skipif(not AXE, reason="axe is not installed (tests/run installs it)")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["a few", "hostile"])
def test_axe_finds_nothing(
    browser: playwright.Browser, addresses: dict[str, str], kind: str, scheme: str
) -> None:
    found = {}
    with reading(browser, color_scheme=scheme) as page:
        for path in PAGES:
            page.goto(addresses[kind] + path)
            page.evaluate(AXE[-1].read_text())
            result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
            found[path] = [
                (each["id"], [node["html"][:120] for node in each["nodes"]][:3])
                for each in result["violations"]
            ]

    assert found == {path: [] for path in PAGES}


@SCRIPTS
def test_an_administrator_finds_the_node_that_is_sick(
    browser: playwright.Browser, addresses: dict[str, str], scripts: bool
) -> None:
    with reading(browser, java_script_enabled=scripts) as page:
        page.goto(addresses["many"] + "/nodes")
        follow(page, ".suspects a")

        assert page.url.endswith("/nodes/main/n07")
        assert "far more than chance" in page.inner_text("main")
        page.go_back()
        page.fill("#name", "NODE0042")
        follow(page, "text=Find")
        assert page.locator("table.nodes tbody tr").count() == 1


def test_an_administrator_pages_through_many_nodes(
    browser: playwright.Browser, addresses: dict[str, str]
) -> None:
    seen: list[str] = []
    with reading(browser, java_script_enabled=False) as page:
        page.goto(addresses["many"] + "/nodes?all=1")
        while True:
            names = page.locator("table.nodes tbody th a").evaluate_all(
                "all => all.map(each => each.getAttribute('href'))"
            )
            seen += names
            if not page.locator("a[rel=next]").count():
                break
            follow(page, "a[rel=next]")

    assert len(seen) == len(set(seen))
    assert len(seen) > 3000


@SCRIPTS
def test_an_administrator_handles_an_incident(
    browser: playwright.Browser, addresses: dict[str, str], scripts: bool
) -> None:
    with reading(browser, java_script_enabled=scripts) as page:
        page.goto(addresses["a few"] + "/incidents")
        follow(page, "text=I take care of it")
        assert page.inner_text("[role=status]") == "You take care of incident 1."
        page.select_option("select[name=hours]", label="1 day")
        follow(page, "text=/^Silence$/")
        assert "hear no more" in page.inner_text("[role=status]")
        follow(page, "text=It is over")
        assert page.inner_text("[role=status]").startswith("Incident 1 is over")


@SCRIPTS
def test_a_note_is_left_on_a_fingerprint_and_read_again(
    browser: playwright.Browser, addresses: dict[str, str], scripts: bool
) -> None:
    said = f"bad cable\nsecond line {HOSTILE}"
    with reading(browser, java_script_enabled=scripts) as page:
        page.goto(addresses["a few"] + "/fingerprints")
        follow(page, page.locator("table th > a:first-child").nth(3))
        page.fill("#note", said)
        follow(page, "text=Keep the note")
        assert page.inner_text("[role=status]") == "The note is kept."
        assert page.inner_text(".kept").startswith("bad cable\nsecond line <script>")
        page.fill("#note", "")
        follow(page, "text=Keep the note")
        assert page.inner_text("[role=status]") == "The note is removed."


@SCRIPTS
def test_a_message_that_was_given_up_is_tried_again(
    browser: playwright.Browser, addresses: dict[str, str], scripts: bool
) -> None:
    with reading(browser, java_script_enabled=scripts) as page:
        page.goto(addresses["a few"] + "/health")
        follow(page, "text=Deliveries that were given up")
        follow(page, "text=Try again")
        assert "It is due again" in page.inner_text("[role=status]")
        assert page.locator("[aria-current=true]").inner_text() == "Given up"


@SCRIPTS
def test_a_log_is_pasted_and_explained(
    browser: playwright.Browser, addresses: dict[str, str], scripts: bool
) -> None:
    with reading(browser, java_script_enabled=scripts) as page:
        page.goto(addresses["a few"] + "/explain")
        page.get_by_label("Paste a log").fill((CASE / "slurm.out").read_text())
        follow(page, "main button")
        assert "Rank 4 on n3 raised ValueError" in page.inner_text("h1")
        follow(page, "text=Explain another")
        assert page.input_value("#log") == ""


@SCRIPTS
def test_files_are_sent_and_explained_and_what_is_wrong_is_said(
    browser: playwright.Browser, addresses: dict[str, str], scripts: bool
) -> None:
    files = [str(path) for path in sorted(CASE.glob("*.*")) if path.suffix != ".toml"]
    with reading(browser, java_script_enabled=scripts) as page:
        page.goto(addresses["a few"] + "/explain")
        page.get_by_label("or send files").set_input_files(files)
        page.click("text=Which host a file is from")
        page.fill("#hosts", "n1 = epilog.n1.txt")
        follow(page, "main button.primary")
        assert "Rank 4 on n3 raised ValueError" in page.inner_text("h1")


def test_nothing_that_was_typed_under_hosts_is_lost_with_a_mistake(
    browser: playwright.Browser, addresses: dict[str, str]
) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(addresses["a few"] + "/explain")
    page.fill("#log", "x")
    page.click("text=Which host a file is from")
    page.fill("#hosts", "n1 = other.txt")
    follow(page, "main button.primary")

    assert "No file that was sent is called" in page.inner_text("[role=alert]")
    assert page.input_value("#hosts") == "n1 = other.txt"
    assert page.locator("#hosts").is_visible()
    context.close()
