"""Pages are valid HTML: tinyhtml5 (WeasyPrint's parser) finds no error in the page of any case."""

from __future__ import annotations

import pytest
from tinyhtml5.parser import HTMLParser

from firstfault.report import html
from tests.diagnosis.case_files import NAMES, explain, files
from tests.report import verdicts as examples


def errors(page: str) -> list[str]:
    parser = HTMLParser()
    parser.parse(page)
    return [f"line {place[0]}: {code} {values}" for place, code, values in parser.errors]


def test_an_error_would_be_found():
    page = html.render(examples.CGROUP_OOM)

    assert errors(page.replace("</section>", "", 1)) != []
    assert errors(page.replace("<table", "<table><p>x</p", 1)) != []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_page_of_every_case_is_valid(name: str):
    assert errors(html.render(explain(files(name)))) == []


@pytest.mark.parametrize("name", [*examples.EXAMPLES, "hostile", "huge", "worst"])
def test_the_page_of_every_example_is_valid(name: str):
    made = {"hostile": examples.hostile, "huge": examples.huge, "worst": examples.worst}
    verdict = made[name]() if name in made else examples.EXAMPLES[name]

    assert errors(html.render(verdict)) == []
