"""What to do, by who can do it: the job's owner, or the administrators."""

from __future__ import annotations

from firstfault.report.causes import ADMINISTRATORS
from firstfault.report.sections import Advice, Listing

OWNER, ON_CALL = "the job's owner", "the administrators"
# What looks at a node or changes it; the rest looks at the job.
_OF_NODES = ("ssh ", "scontrol show node", "scontrol update ", "sinfo ", "kubectl describe node")


def by_reader(
    do: Listing[str], commands: Listing[str], domain: str, most: int
) -> tuple[Advice, ...]:
    """``do`` and ``commands`` apart for each reader; one part without a name where only one is
    spoken to. Of a cause of the ``domain`` "system" the administrators' part comes first. Of each
    list ``most`` are kept."""
    theirs = tuple(
        _begun(phrase.removeprefix(ADMINISTRATORS))
        for phrase in do.items
        if phrase.startswith(ADMINISTRATORS)
    )
    if not theirs:
        one = Advice(
            "", _first(do.items, do.left_out, most), _first(commands.items, commands.left_out, most)
        )
        return (one,) if do.items or commands.items or do.left_out else ()
    owners = tuple(phrase for phrase in do.items if not phrase.startswith(ADMINISTRATORS))
    of_nodes = tuple(each for each in commands.items if each.startswith(_OF_NODES))
    of_jobs = tuple(each for each in commands.items if not each.startswith(_OF_NODES))
    parts = [
        Advice(
            OWNER,
            _first(owners, do.left_out, most),
            _first(of_jobs, commands.left_out, most),
        ),
        Advice(ON_CALL, _first(theirs, 0, most), _first(of_nodes, 0, most)),
    ]
    if domain == "system":
        parts.reverse()
    return tuple(part for part in parts if part.do.items or part.commands.items)


def _first(items: tuple[str, ...], left_out: int, most: int) -> Listing[str]:
    return Listing(items[:most], left_out + max(0, len(items) - most))


def _begun(phrase: str) -> str:
    return phrase[:1].upper() + phrase[1:]
