"""A site's own templates: they count, cannot do harm, and where they fail ours make the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_type_hints

import jinja2
import msgspec
import pytest
from jinja2 import meta, nodes

from firstfault.report import html
from firstfault.report import page as pages
from firstfault.report.filters import FILTERS
from firstfault.report.html import Link
from firstfault.report.memory_picture import memory_picture
from firstfault.report.outline import outline
from firstfault.report.timeline import picture
from tests.report import verdicts

ROOT = Path(__file__).parents[2]
OURS = ROOT / "templates"
DOCS = (ROOT / "docs" / "templates.md").read_text("utf-8")
VERDICT = verdicts.CGROUP_OOM
NOTE = "the site's own could not be used"


@pytest.fixture(autouse=True)
def no_site() -> Iterator[None]:
    yield
    pages.use_site(None)


def use(**texts: str) -> list[tuple[str, str]]:
    """Makes the templates count; what is told of them from then on."""
    told: list[tuple[str, str]] = []
    named = {name.replace("_", "."): text for name, text in texts.items()}
    pages.use_site(pages.Site("/etc/t", named, lambda name, said: told.append((name, said))))
    return told


def test_a_template_of_the_sites_makes_the_page() -> None:
    told = use(report_html="<body>{{ said.headline }} {{ 12345|number }}</body>")

    shown = html.render(VERDICT)

    assert shown.startswith("<body>Rank 5 on n4 was killed by the kernel: the job&#39;s memory")
    assert "12,345" in shown and told == []


def test_each_is_replaced_alone_also_what_another_includes() -> None:
    use(report_css="body { color: teal }", mail_html="{{ nonsense }}")

    shown = html.render(VERDICT)

    assert "color: teal" in shown and NOTE not in shown


def test_all_that_a_template_shows_is_escaped() -> None:
    use(report_html="{% set x %}<i>{{ said.headline }}</i>{% endset %}{{ x }} {{ '<b>' }}")
    hostile = msgspec.structs.replace(
        VERDICT, cause=msgspec.structs.replace(VERDICT.cause, title="<script>alert(1)</script>")
    )

    assert html.render(hostile) == "<i>&lt;script&gt;alert(1)&lt;/script&gt;</i> &lt;b&gt;"


BROKEN = {
    "syntax": ("a\n{% for x in %}", "report.html line 2: Expected an expression"),
    "unknown": ("{{ sayd }}", "report.html line 1: UndefinedError: 'sayd' is undefined"),
    "attribute": ("{{ said.headline.nope }}", "has no attribute 'nope'"),
    "raises": ("\n\n{{ 1 // 0 }}", "report.html line 3: ZeroDivisionError"),
    "absent": ("{% include 'nope.html' %}", "there is no template 'nope.html'"),
    "itself": ("{% include 'report.html' %}", "RecursionError"),
    "endless": (
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "more than 200,000 rounds",
    ),
    "endless macro": (
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "more than 200,000 rounds",
    ),
    "huge": ("{% for a in range(9999) %}{{ 'x' * 9999 }}{% endfor %}", "more than 8,388,608"),
    "huge text": ("{{ 'x' * 10000000 }}", "* makes more than 100,000"),
    "power": ("{{ 9 ** 9 ** 9 }}", "** is not available"),
    "insides": ("{{ said.__class__.__mro__ }}", "unsafe"),
    "safe": ("{{ said.headline|safe }}", "|safe is not available"),
    "autoescape": ("{% autoescape false %}{{ said.job }}{% endautoescape %}", "autoescape cannot"),
    "volatile": ("{% import 'x.html' as x %}{{ x }}", "there is no template 'x.html'"),
}  # fmt: skip


@pytest.mark.parametrize(("template", "said"), BROKEN.values(), ids=BROKEN)
def test_where_a_template_fails_ours_makes_the_page_and_says_so(template: str, said: str) -> None:
    whole = html.render(VERDICT)
    told = use(report_html=template)

    shown = [html.render(VERDICT) for _ in range(3)]

    before, _, foot = shown[0].rpartition('<footer class="page" role="note">')
    assert before == whole.partition("</body>")[0]
    assert NOTE in foot and shown[1:] == shown[:1] * 2
    assert len(told) == 1 and told[0][0] == "report.html" and said in told[0][1]


def test_what_is_wrong_is_known_before_any_page_is_made() -> None:
    site = pages.Site(
        "/etc/t",
        {
            "report.html": "{% include 'head.html' %}",
            "head.html": "fine",
            "raport.html": "a slip",
            "mail.html": "{% if %}",
        },
        lambda name, said: None,
    )

    faults = site.faults()

    assert len(faults) == 2
    assert faults[0].startswith("/etc/t/mail.html: mail.html line 1: Expected an expression")
    assert faults[1].startswith("/etc/t/raport.html: no page is made with it. Ours are ")


def test_our_own_templates_stand_the_sandbox_unchanged() -> None:
    whole = html.render(VERDICT)
    use(**{path.name.replace(".", "_", 1): path.read_text() for path in OURS.glob("*.html")})

    assert html.render(VERDICT) == whole


def section(name: str) -> str:
    found = re.search(rf"^### `{re.escape(name)}`\n(.*?)(?=^##|\Z)", DOCS, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/templates.md has no heading ### `{name}`"
    return found[1]


def rows(text: str) -> dict[str, str]:
    return dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.MULTILINE))


def pages_made() -> list[str]:
    included = {
        each
        for path in OURS.iterdir()
        if path.suffix in (".html", ".j2")
        for each in meta.find_referenced_templates(jinja2.Environment().parse(path.read_text()))
    }
    return sorted(path.name for path in OURS.glob("*.html") if path.name not in included)


def variables(name: str) -> set[str]:
    """What a template and those that it includes are given."""
    environment = jinja2.Environment()
    environment.filters.update(FILTERS)
    tree = environment.parse((OURS / name).read_text())
    # What a template makes itself, it is not given, though its blocks take it from outside.
    made = {each.target for each in tree.find_all(nodes.Import)}
    made |= {each.name for each in tree.find_all(nodes.Macro)}
    made |= {str(name) for each in tree.find_all(nodes.FromImport) for name in each.names}
    found = meta.find_undeclared_variables(tree) - made
    for each in meta.find_referenced_templates(tree):
        assert each is not None
        assert f"`{each}`" in DOCS
        found |= variables(each)
    return found


@pytest.mark.parametrize("name", pages_made())
def test_the_docs_tell_what_each_template_is_given(name: str) -> None:
    assert set(rows(section(name))) == variables(name)


def structs(kind: object) -> Iterator[type[msgspec.Struct]]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
        for hint in get_type_hints(kind).values():
            yield from structs(hint)
    for each in get_args(kind):
        yield from structs(each)
    origin = getattr(kind, "__origin__", None)
    if origin is not None and isinstance(origin, type) and issubclass(origin, msgspec.Struct):
        yield from structs(origin)


def test_the_docs_tell_the_fields_of_each_value_that_templates_are_given() -> None:
    given = [get_type_hints(each)["return"] for each in (outline, picture, memory_picture)]
    known = {kind.__name__: kind for hint in (*given, Link) for kind in structs(hint)}
    fields = {
        name: ", ".join(f"`{field}`" for field in kind.__struct_fields__)
        for name, kind in known.items()
    }

    documented = dict(re.findall(r"^\| `([A-Z]\w+)` \| (.*?) \|", DOCS, re.MULTILINE))
    wanted = "\n".join(f"| `{name}` | {said} |" for name, said in fields.items())
    assert documented == fields, f"docs/templates.md must have these rows:\n{wanted}"
