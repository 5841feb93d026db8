import datetime as dt
import re

import msgspec
import pytest

from firstfault.report import html
from tests.report import verdicts as examples
from tests.report.test_forms import Reader

REPORTS = {"report failure", "report unknown", "report success"}


def skeleton(page: str) -> set[tuple[str, frozenset[str]]]:
    return {(tag, frozenset(attributes)) for tag, attributes in Reader(page).elements}


def test_no_element_and_no_attribute_comes_from_the_input():
    ours = set().union(*(skeleton(html.render(known)) for known in examples.EXAMPLES.values()))

    assert skeleton(html.render(examples.hostile())) <= ours


def test_the_attributes_of_a_hostile_page_hold_nothing_of_the_input():
    values = [
        value
        for _, attributes in Reader(html.render(examples.hostile())).elements
        for name, value in attributes.items()
        if name != "title" and value
    ]

    assert [value for value in values if "pwned" in value or "evil" in value] == []


def test_what_an_attacker_wrote_is_shown_as_it_was_written():
    seen = Reader(html.render(examples.hostile())).seen()

    assert "<script>document.title='pwned';alert(1)</script>" in seen
    assert "&amp; &lt;b&gt;" in seen
    assert "{{ 7*7 }} {% raw %}" in seen
    assert "\\u202e" in seen


def test_a_page_needs_nothing_from_outside_and_no_script():
    elements = Reader(html.render(examples.CGROUP_OOM)).elements
    tags = {tag for tag, _ in elements}
    fetched = [a for _, a in elements if {"src", "srcset", "data", "background"} & set(a)]

    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    assert fetched == []
    css = re.search(r"<style>(.*?)</style>", html.render(examples.CGROUP_OOM), re.S)
    assert css is not None
    assert "url(" not in css[1]
    assert "@import" not in css[1]


@pytest.mark.parametrize("name", examples.EXAMPLES)
def test_a_page_is_well_built(name: str):
    elements = Reader(html.render(examples.EXAMPLES[name])).elements
    tags = [tag for tag, _ in elements]
    ids = [a["id"] for _, a in elements if "id" in a]
    labels = [a["aria-labelledby"] for _, a in elements if "aria-labelledby" in a]
    inner_links = [a["href"] for tag, a in elements if tag == "a"]

    assert tags.count("h1") == tags.count("main") == tags.count("title") == 1
    assert len(ids) == len(set(ids))
    assert set(labels) <= set(ids)
    assert {str(href).removeprefix("#") for href in inner_links} <= set(ids)


def test_a_huge_verdict_makes_a_page_of_bounded_size_that_says_what_it_left_out():
    page = html.render(examples.huge())

    assert len(page.encode()) < 1_000_000
    assert "4,975 more lines left out here" in Reader(page).seen()


def test_the_worst_verdict_stays_within_two_megabytes():
    assert len(html.render(examples.worst()).encode()) < 2_000_000


def test_a_link_can_lead_only_to_a_page():
    good = html.Link("All jobs of <alice>", "/jobs?user=alice&n=1")
    elements = Reader(html.render(examples.NONE, links=[good])).elements

    assert ("a", {"href": "/jobs?user=alice&n=1"}) in elements
    for href in ("javascript:alert(1)", "//evil.example/", "data:text/html,x", "/a b", ""):
        with pytest.raises(ValueError, match="links to http"):
            html.render(examples.NONE, links=[html.Link("x", href)])


def test_the_time_of_writing_is_shown_only_when_it_is_given():
    at = dt.datetime(2026, 11, 30, 16, 0, tzinfo=dt.UTC)

    assert "written 2026-11-30 16:00:00 UTC" in html.render(examples.NONE, generated_at=at)
    assert "written" not in Reader(html.render(examples.NONE)).seen()


@pytest.mark.parametrize("name", examples.EXAMPLES)
def test_a_part_of_another_page_is_the_same_report_without_style_or_script(name: str):
    verdict = examples.EXAMPLES[name]
    part = html.body(verdict)
    elements = Reader(part).elements
    tags = {tag for tag, _ in elements}
    attributes = {attribute for _, each in elements for attribute in each}

    assert part in html.render(verdict)
    assert elements[0][0] == "div" and elements[0][1]["class"] in REPORTS
    assert not tags & {"style", "script", "main", "header", "footer", "html", "body"}
    assert "style" not in attributes


def test_no_rule_of_the_style_sheet_reaches_out_of_the_report():
    css = re.sub(r"/\*.*?\*/", "", html.styles(), flags=re.S)
    css = re.sub(r"@media [^{]*{", "", css)
    selectors = [one.strip() for each in re.findall(r"([^{}]+){", css) for one in each.split(",")]

    assert len(selectors) > 100
    assert [one for one in selectors if not re.match(r"\.report(-page$|[ .]|$)", one)] == []


def test_a_part_links_only_to_pages_too():
    with pytest.raises(ValueError, match="links to http"):
        html.body(examples.NONE, links=[html.Link("x", "javascript:alert(1)")])


def test_a_line_of_evidence_unfolds_the_lines_around_it_with_their_numbers():
    page = html.render(examples.CGROUP_OOM)
    shown = re.findall(r'<li value="(\d+)"( class="quoted")?><code>(.*?)</code></li>', page)

    assert [(number, bool(quoted)) for number, quoted, _ in shown] == [
        ("38", False),
        ("39", False),
        ("40", False),
        ("41", True),
        ("42", False),
    ]
    assert shown[0][2] == "1: step 811 loss 2.31"
    assert "failed (exitcode: -9)" in shown[3][2]


def test_lines_whose_numbers_are_not_known_have_none():
    quoted = msgspec.structs.replace(examples.AGENT, line=None)
    verdict = msgspec.structs.replace(
        examples.CGROUP_OOM, evidence=(examples.KERNEL, examples.KILLED, quoted)
    )
    page = html.render(verdict)

    assert '<ol class="lines unnumbered">' in page
    assert "<li value" not in page
