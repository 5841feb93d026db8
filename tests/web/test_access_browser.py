"""What a page of somebody else's can do to the pages, in a real Chromium: nothing.

The pages are as on one person's machine: whoever reaches them is an administrator. The other page
is opened in the same browser, on the same machine and under a name that leads to it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from firstfault.web import server
from firstfault.web.access import Ways
from firstfault.web.application import application
from firstfault.web.guard import Entrance
from tests.report.test_axe import FOUND as AXE
from tests.report.test_chromium import CHROMIUM
from tests.web.board_served import places, served
from tests.web.boards import ADMINISTRATOR, ENDS, Remembered

playwright = pytest.importorskip("playwright.sync_api")

pytestmark = [
    pytest.mark.chromium,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]

FINGERPRINT = ENDS[0].verdict.fingerprint
EVIL = "evil.example"
# All that a page can make a browser ask of another site, by markup and by script.
ATTACK = """<!DOCTYPE html><title>evil</title><body>
<form id="f" method="post" action="{pages}/fingerprints/{fingerprint}/note" target="frame">
<input name="note" value="evil was here"><input name="form_token" value="{token}"></form>
<form id="g" method="post" enctype="text/plain" target="frame2"
 action="{pages}/api/v1/fingerprints/{fingerprint}/note">
<input name='{{"note": "evil was here", "x": "' value='"}}'></form>
<iframe name="frame"></iframe><iframe name="frame2"></iframe>
<iframe id="framed" src="{pages}/"></iframe>
<script>
window.read = [];
f.submit(); g.submit();
const url = "{pages}/api/v1/failures?limit=5";
Promise.allSettled([
  fetch(url).then(r => r.text()).then(t => read.push(t)),
  fetch(url, {{credentials: "include"}}).then(r => r.text()).then(t => read.push(t)),
  fetch("{pages}/api/v1/fingerprints/{fingerprint}/note", {{method: "POST",
    headers: {{"content-type": "application/json"}}, body: '{{"note": "evil was here"}}'}})
    .then(r => r.text()).then(t => read.push(t)),
  fetch("{pages}/api/v1/fingerprints/{fingerprint}/note", {{method: "POST", mode: "no-cors",
    headers: {{"content-type": "text/plain"}}, body: '{{"note": "evil was here"}}'}})
    .then(r => r.text()).then(t => t && read.push(t)),
  new Promise((done, no) => {{ const s = document.createElement("script"); s.src = url;
    s.onload = () => {{ read.push("script"); done(); }}; s.onerror = no; document.body.append(s); }}),
  new Promise((done, no) => {{ const s = document.createElement("img"); s.src = "{pages}/static/mark.svg";
    s.onload = () => {{ read.push("picture"); done(); }}; s.onerror = no; document.body.append(s); }}),
  new Promise((done) => {{ const s = new EventSource("{pages}/live");
    s.onmessage = e => read.push(e.data); s.addEventListener("failures", e => read.push(e.data));
    s.onerror = () => {{ s.close(); done(); }}; }}),
  new Promise((done) => framed.onload = () => {{
    try {{ read.push(framed.contentDocument.body.innerText); }} catch (e) {{}} done(); }}),
]).then(() => setTimeout(() => document.title = "tried", 500));
</script>"""


@contextmanager
def evil(page: str) -> Iterator[int]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page.encode()
            self.send_response(200)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as http:
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield http.server_port
        http.shutdown()
        thread.join(10)


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with playwright.sync_playwright() as p:
        rules = f"--host-resolver-rules=MAP *.{EVIL} 127.0.0.1, MAP {EVIL} 127.0.0.1"
        found = p.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", rules]
        )
        yield found
        found.close()


def note_of(board: Remembered) -> str | None:
    assert FINGERPRINT is not None
    found = board.fingerprint(ADMINISTRATOR, FINGERPRINT)
    assert found is not None
    return found.note


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", EVIL])
def test_another_page_reads_nothing_and_changes_nothing(browser, host: str) -> None:  # type: ignore[no-untyped-def]  # playwright's types are not installed
    board = Remembered(ENDS)
    with served(places(board)) as url:
        context = browser.new_context()
        # It has even got a form's token, of another day and another administrator.
        own = context.new_page()
        own.goto(f"{url}/fingerprints/{FINGERPRINT}")
        token = own.locator("input[name=form_token]").first.get_attribute("value")
        attack = ATTACK.format(pages=url, fingerprint=FINGERPRINT, token=token)
        with evil(attack) as port:
            page = context.new_page()
            page.goto(f"http://{host}:{port}/")
            page.wait_for_function("document.title == 'tried'", timeout=20_000)
            read = page.evaluate("window.read")
        context.close()

    assert read == []
    assert note_of(board) is None


def test_a_name_that_is_pointed_here_reads_nothing(browser) -> None:  # type: ignore[no-untyped-def]  # playwright's types are not installed
    with served(places(Remembered(ENDS))) as url:
        context = browser.new_context()
        page = context.new_page()
        port = url.rpartition(":")[2]
        answer = page.goto(f"http://{EVIL}:{port}/api/v1/failures")
        text = page.content()
        context.close()

    assert answer.status == 421
    assert '"failures"' not in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1440])
def test_an_error_is_a_readable_page(browser, width: int, scheme: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]  # playwright's types are not installed
    sock = server.listener("127.0.0.1", 0)
    closed = application(places(Remembered(ENDS)), lambda: Entrance(Ways([])))
    with served(places(Remembered(ENDS))) as url, server.serving(closed, sock):
        context = browser.new_context(viewport={"width": width, "height": 600}, color_scheme=scheme)
        page = context.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        for address, words in (
            (f"{url}/absent", "Nothing is here"),
            (f"{server.address(sock)}/", "Who are you?"),
        ):
            page.goto(address)
            page.screenshot(path=tmp_path / "error.png")

            assert words in page.inner_text("h1")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            if AXE:
                page.evaluate(AXE[-1].read_text("utf-8"))
                assert page.evaluate("axe.run().then(r => r.violations.map(v => v.id))") == []
        context.close()

    # Chromium says itself that a page answers with 404 or 401.
    assert [each for each in said if "status of 40" not in each] == []
