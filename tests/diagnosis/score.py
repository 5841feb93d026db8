"""How right the diagnosis is on labelled cases, and how sure.

    .venv/bin/python -m tests.diagnosis.score [--verbose] [DIR...]

DIR is a case (a folder with expected.toml or expected.json) or a folder of cases; tests/cases by
default. Exit status: 1 where a verdict is sure of what is wrong, else 0.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstfault.model import verdict as v
from tests.diagnosis.case_files import CASES, TRUTHS, evidence, explain, truth


@dataclass(frozen=True)
class Scored:
    """One case: what is true of it and what the verdict says."""

    name: str
    truth: dict[str, Any]
    cause: str
    confidence: str
    rank: int | None
    host: str | None
    who: str
    quoted: str
    failure: str | None = None

    @property
    def cause_right(self) -> bool:
        return self.cause in self.truth["cause"]

    @property
    def rank_right(self) -> bool | None:
        """None where the evidence does not tell."""
        if "rank" not in self.truth:
            return None
        return self.rank in (self.truth["rank"], *self.truth.get("also", ()))

    @property
    def host_right(self) -> bool | None:
        """None where the evidence does not tell."""
        if "host" not in self.truth:
            return None
        # one of several that failed alike may stand for all, on its own host
        another = "also" in self.truth and self.rank_right and self.rank != self.truth["rank"]
        return another or self.host in (self.truth["host"], *self.truth.get("own_names", ()))

    @property
    def key_right(self) -> bool | None:
        """None where no line is named as the proof."""
        return self.truth["key"] in self.quoted if "key" in self.truth else None

    @property
    def sure_and_wrong(self) -> bool:
        wrong_cause = self.confidence == v.CONFIRMED and not self.cause_right
        wrong_rank = self.rank is not None and self.rank_right is False
        wrong_host = self.host is not None and self.host_right is False
        return wrong_cause or (self.who == v.CONFIRMED and (wrong_rank or wrong_host))

    @property
    def too_sure(self) -> bool:
        """Sure of a rank that the label says the evidence does not tell."""
        return self.who == v.CONFIRMED and self.rank is not None and self.rank_right is None

    @property
    def wrong(self) -> bool:
        return False in (self.cause_right, self.rank_right, self.host_right) or bool(self.failure)


def scored(folder: Path) -> Scored:
    """A case's verdict beside its truth; an exception is a failure of the case, not of the score."""
    right = truth(folder)
    try:
        verdict = explain(evidence(folder))
    except Exception as error:  # noqa: BLE001 - the other cases are scored all the same
        nothing = ("", "", None, None, "", "")
        return Scored(folder.name, right, *nothing, failure=f"{type(error).__name__}: {error}")
    who = verdict.initiator
    quoted = "\n".join(each.text for each in verdict.evidence if each.role == "cause")
    sure = verdict.cause.confidence
    return Scored(
        folder.name, right, verdict.cause.id, sure, who.rank, who.host, who.confidence, quoted
    )


def folders(paths: Iterable[Path]) -> list[Path]:
    """The cases at or right below the paths."""
    found = set()
    for path in paths:
        for file in TRUTHS:
            found |= {path} if (path / file).exists() else set()
            found |= {each.parent for each in path.glob(f"*/{file}")}
    return sorted(found)


def share(answers: Iterable[bool | None]) -> str:
    """How many of those that can be answered are right."""
    known = [each for each in answers if each is not None]
    return f"{sum(known)} of {len(known)}" + (
        f" ({100 * sum(known) / len(known):.0f} %)" if known else ""
    )


def report(results: list[Scored], *, verbose: bool = False) -> list[str]:
    """The score's lines: table, shares, and what is wrong, wrong and sure first."""
    table = Counter(
        (each.cause if each.cause_right else each.truth["cause"][0], each.cause or "(failed)")
        for each in results
    )
    lines = ["truth                          verdict                        cases"]
    for (right, said), count in sorted(table.items()):
        marks = "" if right == said else "  <-"
        lines.append(f"{right:30} {said:30} {count:5}{marks}")
    allowed = [each for each in results if each.truth.get("confidence") == v.CONFIRMED]
    dared = [each.confidence == v.CONFIRMED and each.cause_right for each in allowed]
    lines += [
        "",
        f"cause right                    {share(each.cause_right for each in results)}",
        f"rank right, where told         {share(each.rank_right for each in results)}",
        f"host right, where told         {share(each.host_right for each in results)}",
        f"proof quoted, where named      {share(each.key_right for each in results)}",
        f"confirmed, where allowed       {share(dared)}",
        f"sure and wrong                 {sum(each.sure_and_wrong for each in results)}",
        f"sure of a rank that is untold  {sum(each.too_sure for each in results)}",
    ]
    order = sorted(results, key=lambda each: (not each.sure_and_wrong, not each.too_sure))
    shown = [each for each in order if verbose or each.wrong or each.too_sure]
    return [*lines, "", *(line(each) for each in shown)]


def line(each: Scored) -> str:
    """One case in a line."""
    if each.failure is not None:
        return f"FAILED  {each.name}: {each.failure}"
    kind = "SURE    " if each.sure_and_wrong else "too sure" if each.too_sure else "wrong   "
    kind = kind if each.wrong or each.too_sure else "right   "
    right = each.truth
    who = f"rank {right.get('rank')} on {right.get('host')}"
    return (
        f"{kind} {each.name}: {each.cause} ({each.confidence}), rank {each.rank} on {each.host}"
        f" ({each.who}); true: {' or '.join(right['cause'])}, {who}"
    )


def main(arguments: list[str]) -> int:
    """Prints the score."""
    verbose = "--verbose" in arguments
    paths = [Path(each) for each in arguments if each != "--verbose"] or [CASES]
    found = folders(paths)
    if not found:
        print(f"no case in {', '.join(map(str, paths))}", file=sys.stderr)
        return 2
    results = [scored(folder) for folder in found]
    print("\n".join(report(results, verbose=verbose)))
    return int(any(each.sure_and_wrong for each in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
