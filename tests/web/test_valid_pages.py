"""Every page is valid HTML, and what its parts refer to is on it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from firstfault.report import page as templates
from firstfault.web import board as pages
from firstfault.web import files
from firstfault.web.application import application
from tests.report.test_valid_html import errors
from tests.web.asking import Client, asked
from tests.web.boards import ENDS, NOW, Remembered

OURS = Path(__file__).parents[2] / "templates"
FORM_TOKEN = re.compile(r'name="form_token" value="[^"]*"')
PATHS = (
    "/",
    "/?span=1y&refresh=60",
    "/failures",
    "/failures?since=x&domain=y&page=z",
    "/failures?text=a&user=b&sort=-lost",
    "/jobs/main/1",
    "/jobs/main/9",
    "/nodes",
    "/causes",
    "/causes/gpu.ecc",
    "/fingerprints",
    "/incidents",
    "/deliveries",
    "/health",
)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    found = [*files.places(), *pages.places(Remembered(ENDS), None, lambda: NOW)]
    with asked(application(found)) as client:
        yield client


@pytest.mark.parametrize("path", PATHS)
def test_every_page_is_valid(client: Client, path: str) -> None:
    assert errors(client.get(path).text) == []


@pytest.mark.parametrize("path", PATHS)
def test_what_a_page_refers_to_is_on_it_once(client: Client, path: str) -> None:
    text = client.get(path).text
    ids = Counter(re.findall(r'\sid="([^"]+)"', text))
    named = re.findall(r'(?:for|list|aria-labelledby|aria-describedby|href)="#?([^"/?:]+)"', text)

    assert [each for each, count in ids.items() if count > 1] == []
    assert {each for each in named if "." not in each} <= set(ids)


@pytest.mark.parametrize("path", PATHS)
def test_nothing_on_a_page_needs_more_than_its_policy_allows(client: Client, path: str) -> None:
    answer = client.get(path)

    assert "'unsafe-inline'" not in answer.headers["content-security-policy"]
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script>|javascript:", answer.text)


@pytest.mark.parametrize("path", PATHS)
def test_our_own_templates_make_the_same_page_in_the_sandbox(client: Client, path: str) -> None:
    whole = client.get(path).text
    kinds = (".html", ".css", ".j2")
    ours = {each.name: each.read_text() for each in OURS.iterdir() if each.suffix in kinds}
    told: list[str] = []
    templates.use_site(templates.Site("/etc/t", ours, lambda _name, said: told.append(said)))
    try:
        by_site = client.get(path).text
    finally:
        templates.use_site(None)

    assert told == []
    assert FORM_TOKEN.sub("", by_site) == FORM_TOKEN.sub("", whole)


def test_a_site_may_have_a_style_of_its_own(client: Client) -> None:
    before = client.get("/").text
    templates.use_site(templates.Site("/etc/t", {"board.css": "b {}"}, lambda *_: None))
    try:
        after = client.get("/").text
        (address,) = re.findall(r'href="(/static/board\.css\?v=\w+)"', after)
        style = client.get(address)
    finally:
        templates.use_site(None)

    assert style.text == "b {}" and style.headers["cache-control"].endswith("immutable")
    assert address not in before
