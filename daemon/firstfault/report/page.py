"""The page templates: how every HTML page of the product is made from its file."""

from __future__ import annotations

import functools

import jinja2

from firstfault.report import wording as w


@functools.cache
def page(name: str) -> jinja2.Template:
    """The template ``name`` ("report.html"): autoescaped, and strict about what it is given."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("firstfault.templates", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = w.number
    return environment.get_template(name)
