"""Links between hosts that failed by the kernel's word, and the ranks that lost each other by them.

A link counts as the reason where the kernel said so within minutes before the ranks of that host
ended, and nothing surer went wrong: then what ranks of any host say of the network, of a collective's
error or of waiting is what that link did to them. Otherwise it is a possible reason at most: a host
has several links, and ports without a cable say the same at each boot.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Protocol

from firstfault.faults.death import Death
from firstfault.model.event import KernelSign
from firstfault.model.fault import Fault, Proof
from firstfault.model.verdict import LIKELY, POSSIBLE

NETWORK = "collective.network"
# What the ends of a broken link say, theirs and their peers'.
_SAID = (NETWORK, "collective.error", "collective.timeout", "collective.peer-lost")
# What a card of the rank's own did to NCCL.
_CARDS = "unhandled cuda error"
# The others are said of ports that nobody uses, too.
_TELLING = frozenset({"kernel.link-down", "kernel.adapter-failed", "kernel.transmit-timeout"})
_WEAK = ("slurm.", "process.stuck", "rendezvous.")
# NCCL's watchdog waits 10 minutes for what a dead link keeps back.
_NEAR = dt.timedelta(minutes=20)


class Seen(Protocol):
    """A kernel's sign of one host."""

    @property
    def event(self) -> KernelSign:
        """The sign."""


def with_links(
    host: str | None, signs: Sequence[Seen], deaths: Sequence[Death], faults: Sequence[Fault]
) -> list[Fault] | None:
    """``faults``, with what the links of ``host`` explain; None where none of its links failed."""
    told = [each.event for each in signs if each.event.means == NETWORK]
    if not told or host is None:
        return None
    near = [event for event in told if _is_near(event, host, deaths)]
    surer = any(f.sure and not (f.cause.startswith(_WEAK) or _is_of_links(f)) for f in faults)
    first = (near or told)[0]
    said = [] if surer or not near else [f for f in faults if _is_of_links(f)]
    proofs = [Proof(event.place, "kernel log", event.host) for event in (near or told)[:3]]
    fault = Fault(
        cause=NETWORK,
        key=NETWORK,
        host=host,
        at=first.at,
        sources=frozenset({"kernel"}).union(*(each.sources for each in said)),
        proofs=tuple(dict.fromkeys((*proofs, *(p for each in said[:3] for p in each.proofs[:1])))),
        sure=bool(near) and not surer,
        limit=LIKELY if near else POSSIBLE,
        facts=(
            *((n, v) for n, v in first.facts if n in ("device", "link")),
            ("sign", first.signature),
        ),
    )
    return [*(each for each in faults if each not in said), fault]


def _is_of_links(fault: Fault) -> bool:
    return fault.cause.startswith(_SAID) and not any(_CARDS in p.place.text for p in fault.proofs)


def _is_near(event: KernelSign, host: str, deaths: Sequence[Death]) -> bool:
    if event.quoted or event.signature not in _TELLING:
        return False
    if event.at is None or event.at.latest is None:
        return False
    ended = [d.noticed_at.latest for d in deaths if d.process.host == host and d.noticed_at]
    known = [each for each in ended if each is not None]
    return bool(known) and dt.timedelta() <= max(known) - event.at.latest <= _NEAR
