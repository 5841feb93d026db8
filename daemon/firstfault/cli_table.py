"""Rows of text for a terminal: aligned, no wider than it, and nothing in them acts there."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import click
from rich.cells import cell_len, set_cell_size

from firstfault.report import wording as w

PLAIN_WIDTH = 80
_NARROWEST, _WIDEST = 40, 160
_GAP = "  "
_LONGEST = 400


class Column(NamedTuple):
    """A column: its head, how wide it may be (None: up to the line's end; the last one only), and
    whether it holds numbers."""

    head: str
    most: int | None = None
    is_number: bool = False


class Row(NamedTuple):
    """A row's cells, and its colour on a terminal, as `click.style` names it."""

    cells: Sequence[str]
    color: str | None = None


def width() -> int:
    """The terminal's, 80 where the output goes elsewhere."""
    if not sys.stdout.isatty():
        return PLAIN_WIDTH
    return min(max(shutil.get_terminal_size().columns, _NARROWEST), _WIDEST)


def is_colored() -> bool:
    """True on a terminal, unless NO_COLOR is set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def lines(columns: Sequence[Column], rows: Sequence[Row]) -> Iterator[str]:
    """The table's lines, its head first."""
    room, color = width(), is_colored()
    head = Row([column.head for column in columns])
    table = [
        [_cell(text, column) for text, column in zip(row.cells, columns, strict=True)]
        for row in (head, *rows)
    ]
    widths = [max(map(cell_len, texts)) for texts in zip(*table, strict=True)]
    for number, texts in enumerate(table):
        line = _GAP.join(
            _aligned(text, each, column.is_number)
            for text, each, column in zip(texts, widths, columns, strict=True)
        )
        line = _cut(line.rstrip(), room)
        if color and number == 0:
            line = click.style(line, bold=True)
        elif color and rows[number - 1].color is not None:
            line = click.style(line, fg=rows[number - 1].color)
        yield line


def _cell(text: str, column: Column) -> str:
    shown = w.visible(text[:_LONGEST])
    return shown if column.most is None else _cut(shown, column.most)


def _cut(text: str, most: int) -> str:
    return text if cell_len(text) <= most else set_cell_size(text, most - 1).rstrip() + "…"


def _aligned(text: str, most: int, is_number: bool) -> str:
    blank = " " * (most - cell_len(text))
    return blank + text if is_number else text + blank
