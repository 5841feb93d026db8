"""What a step of the chain is a story of: one rank's, or that of many ranks alike."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from firstfault.model import verdict as v
from firstfault.report import wording as w

# Longer lists of ranks are only counted.
_LONGEST_RANKS = 18


class Story(msgspec.Struct, frozen=True):
    """``who`` ("ranks 0-3", "rank 5 on n4", "") and ``what`` ("lost a peer", "3 agents that were
    told to stop"); ``first`` is where the first of several was ("" where that is not known), None
    where there is but one."""

    who: str
    what: str
    first: str | None = None


def groups(verdict: v.Verdict) -> dict[str, v.Consequence]:
    """A verdict's consequences by what it calls them."""
    return {each.what: each for each in verdict.consequences}


def story(link: v.ChainLink, groups: Mapping[str, v.Consequence], limit: int = 200) -> Story:
    """The story of ``link``; that of all ranks which the verdict counts with it."""
    place = w.place(link.rank, link.host) or ""
    known = w.GROUPS.get(link.what) if link.role == "consequence" else None
    group = groups.get(known.of) if known is not None else None
    if known is None or group is None or group.count < 2:
        return Story(place, w.clean(link.what, limit))
    if group.ranks:
        return Story(several(group.count, group.ranks), known.did, place)
    return Story("", f"{w.number(group.count)} {w.clean(group.what, limit)}", place)


def several(count: int, ranks: str) -> str:
    """ "ranks 0-3,7", or "4,711 ranks" where the list would be long."""
    said = w.clean(ranks, 200)
    if len(said) > _LONGEST_RANKS:
        return w.count(count, "rank")
    return f"{'rank' if said.isdigit() else 'ranks'} {said}"
