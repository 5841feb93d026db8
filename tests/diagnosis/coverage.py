"""Which causes the cases of tests/cases try, and how: won, nearly met, with clocks that are wrong.

    .venv/bin/python -m tests.diagnosis.coverage

writes the table of tests/cases/README.md anew.
"""

from __future__ import annotations

from dataclasses import dataclass

from firstfault.signatures import known_causes
from tests.diagnosis.case_files import CASES, NAMES, expected

README = CASES / "README.md"
BEGIN, END = "<!-- coverage: begin -->", "<!-- coverage: end -->"
# No cause, but what is said where there is none.
ANSWERS = ("unknown", "none")
SHOWN = 3


@dataclass(frozen=True)
class Tried:
    """The cases of one cause; ``open`` are those of ``won`` that are not yet told right."""

    won: tuple[str, ...]
    open: frozenset[str]
    near: tuple[str, ...]
    skewed: tuple[str, ...]
    family_skewed: tuple[str, ...]

    @property
    def lacking(self) -> list[str]:
        """What no case tries."""
        has = {"a case that it wins": tuple(set(self.won) - self.open), "a near miss": self.near}
        has["a case with skewed clocks, in its family at least"] = self.family_skewed
        return [what for what, cases in has.items() if not cases]


def tried() -> list[str]:
    """The causes that must be tried: all of them."""
    return sorted(known_causes() - set(ANSWERS))


def coverage() -> dict[str, Tried]:
    """How each cause that must be tried is tried; a case with several right causes wins none."""
    truths = {name: expected(name) for name in NAMES}
    won = {name: truth["cause"][0] for name, truth in truths.items() if len(truth["cause"]) == 1}
    skewed = {name: cause for name, cause in won.items() if truths[name].get("skewed")}
    unsure = frozenset(name for name, truth in truths.items() if "open" in truth)
    found = {}
    for cause in tried():
        near = tuple(n for n, truth in truths.items() if cause in truth.get("near_miss_of", ()))
        mates = tuple(n for n, each in skewed.items() if each.split(".")[0] == cause.split(".")[0])
        own = tuple(n for n, each in skewed.items() if each == cause)
        plain = tuple(n for n, each in won.items() if each == cause and n not in skewed)
        found[cause] = Tried(plain, unsure, near, own, mates)
    return found


def shown(names: tuple[str, ...], otherwise: str = "") -> str:
    """A table's cell: the first cases, and how many more there are."""
    more = f" (+{len(names) - SHOWN})" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more if names else otherwise


def table() -> str:
    """The README's table."""
    lines = ["| cause | wins | near misses | with skewed clocks |", "|---|---|---|---|"]
    for cause, each in coverage().items():
        cells = (shown(each.won), shown(each.near), shown(each.skewed, "(family)"))
        lines.append(f"| {cause} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def written() -> str:
    """The README with its table as it should be."""
    before, rest = README.read_text().split(BEGIN + "\n")
    return before + BEGIN + "\n" + table() + END + rest.split(END)[1]


if __name__ == "__main__":
    README.write_text(written())
