"""The page in a real Chromium: nothing of the input runs, and nothing is wider than a phone."""

import json
import os
import re
import shutil
import signal
import subprocess
from html import escape, unescape
from pathlib import Path

import pytest

from firstfault.model import verdict as v
from firstfault.report import html as page
from tests.report import verdicts as examples

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.chromium,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]


def dom(file: Path, profile: Path) -> str:
    """The document as Chromium has it once it is loaded and its scripts have run."""
    assert CHROMIUM is not None
    options = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
        "--disable-background-networking --disable-component-update --disable-sync "
        "--hide-scrollbars --allow-file-access-from-files --virtual-time-budget=2000 --dump-dom"
    )
    browser = subprocess.Popen(
        [CHROMIUM, *options.split(), f"--user-data-dir={profile}", file.as_uri()],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return browser.communicate(timeout=60)[0].decode()
    finally:
        if browser.poll() is None:
            os.killpg(browser.pid, signal.SIGKILL)
            browser.wait()


def measured(tmp_path: Path, pages: dict[str, str], script: str, width: int = 390) -> dict:
    """What ``script`` (JavaScript, given ``frame``) returns for each page in a frame so wide."""
    frames = "".join(
        f'<iframe id="{escape(name)}" style="border:0;width:{width}px;height:800px"'
        f' srcdoc="{escape(text)}"></iframe>'
        for name, text in pages.items()
    )
    wrapper = tmp_path / "frames.html"
    wrapper.write_text(
        f"<!DOCTYPE html><meta charset=utf-8><body>{frames}<pre id=result></pre><script>"
        "onload = () => { const found = {};"
        " for (const frame of document.querySelectorAll('iframe'))"
        f" found[frame.id] = (frame => {{ {script} }})(frame);"
        " document.getElementById('result').textContent = JSON.stringify(found); };"
        "</script></body>"
    )
    found = re.search(r'<pre id="result">(.*?)</pre>', dom(wrapper, tmp_path / "profile"), re.S)
    assert found is not None
    return json.loads(unescape(found[1]))


def without_policy(text: str) -> str:
    bare, count = re.subn(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    assert count == 1
    return bare


def test_a_script_of_ours_would_have_been_seen_to_run(tmp_path: Path):
    file = tmp_path / "control.html"
    file.write_text("<title>safe</title><script>document.title='pwned'</script>")

    assert "<title>pwned</title>" in dom(file, tmp_path / "profile")


@pytest.mark.parametrize("policy", [True, False], ids=["with its policy", "by escaping alone"])
def test_nothing_that_an_attacker_wrote_runs(tmp_path: Path, policy: bool):
    text = page.render(examples.hostile())
    file = tmp_path / "hostile.html"
    file.write_text(text if policy else without_policy(text))
    loaded = dom(file, tmp_path / "profile")
    titles = re.findall(r"<title>(.*?)</title>", loaded, re.S)

    assert len(titles) == 1
    assert titles[0] != "pwned"
    assert titles[0].startswith("Job &lt;script&gt;")
    assert "<script" not in loaded
    assert "<img" not in loaded


def test_no_page_is_wider_than_a_phone_and_none_breaks_its_own_policy(tmp_path: Path):
    verdicts: dict[str, v.Verdict] = {**examples.EXAMPLES, "hostile": examples.hostile()}
    pages = {name: page.render(verdict) for name, verdict in verdicts.items()}
    opened = {name: text.replace("<details", "<details open") for name, text in pages.items()}
    found = measured(
        tmp_path,
        opened,
        "const root = frame.contentDocument.documentElement;"
        " const style = frame.contentWindow.getComputedStyle(root.querySelector('section'));"
        " return {wide: root.scrollWidth, styled: style.borderTopWidth};",
    )

    assert {name: value["wide"] for name, value in found.items()} == dict.fromkeys(pages, 390)
    assert {value["styled"] for value in found.values()} == {"1px"}


CONTRAST = """
const win = frame.contentWindow, doc = frame.contentDocument, poor = [];
const parts = text => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => { const f = c => { c /= 255;
  return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
const ground = el => { for (; el; el = el.parentElement) {
  const c = parts(win.getComputedStyle(el).backgroundColor);
  if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
for (const el of doc.body.querySelectorAll('*')) {
  const own = [...el.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  if (!own) continue;
  const a = light(parts(win.getComputedStyle(el).color)), b = light(ground(el));
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) poor.push(el.tagName + '.' + el.className + ' ' + ratio.toFixed(2));
}
return poor;
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground_as_wcag_aa_asks(tmp_path: Path, scheme: str):
    pages = {name: page.render(verdict) for name, verdict in examples.EXAMPLES.items()}
    # The scheme is chosen by the reader's system; here the query itself is made to hold or not.
    forced = {
        name: text.replace("(prefers-color-scheme: dark)", "all" if scheme == "dark" else "not all")
        for name, text in pages.items()
    }
    found = measured(tmp_path, forced, CONTRAST, width=1200)

    assert found == {name: [] for name in pages}
