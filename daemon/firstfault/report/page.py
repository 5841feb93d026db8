"""The page templates: how every HTML page of the product is made from its file.

A site's own templates count before ours, one by one. They are tried in a sandbox, and where one
of them fails, ours makes the page and says so at its foot: no page is lost by a slip.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import jinja2
import markupsafe

from firstfault.report import wording as w
from firstfault.report.filters import FILTERS
from firstfault.report.sandbox import Exceeded, Sandbox, own_loader

Tell = Callable[[str, str], None]


class Page:
    """One page template: ours, or the site's where it has one of this name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def render(self, **context: object) -> str:
        """The page. Never fails for what is wrong with a template of the site's."""
        site = _site
        if site is None or not site.changes(self.name):
            return self._by_ours(context)
        said = site.given_up(self.name)
        if said is None:
            try:
                return site.render(self.name, context)
            except Exception as error:  # noqa: BLE001 - boundary: a site's template may do anything
                said = site.failed(self.name, error)
        ours = self._by_ours(context)
        return _footed(ours, said) if self.name.endswith(".html") else ours

    def _by_ours(self, context: Mapping[str, object]) -> str:
        return _own().get_template(self.name).render(context)


class Site:
    """A site's own templates: ``texts`` by their files' names, which lie in ``folder``.

    ``tell`` hears of each template that fails, and how; of the same failure once.
    """

    def __init__(self, folder: str, texts: Mapping[str, str], tell: Tell) -> None:
        self._folder = folder
        self._sandbox = Sandbox(folder, texts)
        self._sandbox.filters.update(FILTERS)
        self._tell = tell
        self._told: set[tuple[str, str]] = set()
        self._given_up: dict[str, str] = {}

    def changes(self, name: str) -> bool:
        """True where ``name``, or what it includes, is a template of the site's."""
        return self._sandbox.changes(name)

    def render(self, name: str, context: Mapping[str, object]) -> str:
        """The page by the site's template. Raises whatever that raises."""
        return self._sandbox.render(name, context)

    def given_up(self, name: str) -> str | None:
        """Why this page is not tried with the site's template any more; None: it is."""
        return self._given_up.get(name)

    def failed(self, name: str, error: Exception) -> str:
        """What is wrong, in a line; told once. What does not end is not tried again."""
        said = w.clean(self._sandbox.place(name, error), 300)
        if isinstance(error, Exceeded):
            self._given_up[name] = said
        if (name, said) not in self._told:
            self._told.add((name, said))
            self._tell(name, said)
        return said

    def faults(self) -> list[str]:
        """What is wrong with the templates as they stand: each that cannot be read, or that has
        the name of none of ours and is not included by another."""
        return [f"{self._folder}/{each}" for each in self._sandbox.faults()]


_site: Site | None = None


def use_site(site: Site | None) -> None:
    """Makes a site's templates count before ours, in this process; None: no more."""
    global _site
    _site = site


@functools.cache
def page(name: str) -> Page:
    """The template ``name`` ("report.html"): autoescaped, and strict about what it is given."""
    _own().get_template(name)
    return Page(name)


@functools.cache
def _own() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=own_loader(),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    return environment


# In the page's own text no "</body>" can stand: it would be escaped.
def _footed(html: str, said: str) -> str:
    note = (
        '<footer class="page" role="note">This page is made by the template that came with '
        f"firstfault; the site's own could not be used: {markupsafe.escape(said)}</footer>\n"
    )
    before, end, after = html.rpartition("</body>")
    return f"{before}{note}{end}{after}" if end else f"{html}{note}"
