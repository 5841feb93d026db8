"""Who gets what: the site's rules, applied to a verdict and its job.

Values in, values out. The first rule that matches decides; with ``continue`` the later ones may add
to it. What a rule asks for and nobody knows yet (Slurm has not answered) is waited for; what nobody
will know never matches. docs/delivery.md describes each key.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal
from zoneinfo import ZoneInfo

import msgspec

from firstfault.model import verdict as v

Domain = Literal["user", "system", "either"]
Confidence = Literal["confirmed", "likely", "possible", "unknown"]
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]

_DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
# More turns than there are ends of quiet times in a week.
_TURNS = 16


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rule: what it asks of a failure (nothing: it matches all), and what it does.

    Texts are shell patterns, one of which must fit. ``send`` names channels, as patterns too.
    ``quiet`` is a time of day ("22:00-07:00") in which what it sends is held back until its end.
    """

    name: str
    partition: tuple[str, ...] = ()
    account: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    comment: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    cause: tuple[str, ...] = ()
    domain: tuple[Domain, ...] = ()
    confidence: tuple[Confidence, ...] = ()
    nodes_min: int | None = None
    nodes_max: int | None = None
    interactive: bool | None = None
    repeat_days: float | None = None
    send: tuple[str, ...] = ("*",)
    quiet: str = ""
    quiet_days: tuple[Day, ...] = ()
    go_on: bool = msgspec.field(default=False, name="continue")


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A site's rules; without one every channel gets every report. ``lists`` are the addresses of
    mail channels: ``mail-NAME``. ``timezone`` is that of the quiet times."""

    timezone: str = "UTC"
    lists: Mapping[str, tuple[str, ...]] = {}
    rule: tuple[Rule, ...] = ()


class Subject(msgspec.Struct, frozen=True):
    """What the rules look at. None: not known; where ``final`` is True, it never will be.

    ``same_at`` is when the same user's last job with the same fingerprint ended.
    """

    verdict: v.Verdict
    user: str | None = None
    partition: str | None = None
    account: str | None = None
    comment: str | None = None
    state: str | None = None
    nodes: int | None = None
    interactive: bool | None = None
    same_at: dt.datetime | None = None
    ended_at: dt.datetime | None = None
    final: bool = True


class Decision(msgspec.Struct, frozen=True):
    """Which channels get it, each with the time until which it is held back (None: at once).

    ``waits_for`` is what is not known yet and decides, "" where nothing is: until it is known,
    nothing is sent. ``why`` has a line for each rule that was applied.
    """

    channels: Mapping[str, dt.datetime | None]
    why: tuple[str, ...] = ()
    waits_for: str = ""


def decide(rules: Rules, subject: Subject, channels: Collection[str], now: dt.datetime) -> Decision:
    """Who of ``channels`` gets the report on ``subject``."""
    if not rules.rule:
        return Decision(dict.fromkeys(channels), ("no rules: every channel",))
    zone = ZoneInfo(rules.timezone)
    chosen: dict[str, dt.datetime | None] = {}
    why: list[str] = []
    for rule in rules.rule:
        unmet = _unmet(rule, subject)
        if unmet is None:
            until = held_until(rule, zone, now)
            mine = [name for name in channels if _fits(name, rule.send)]
            for name in mine:
                chosen.setdefault(name, until)
            why.append(_said(rule, mine, until))
            if not rule.go_on:
                return Decision(chosen, tuple(why))
        elif unmet and not subject.final:
            return Decision({}, (*why, f"{rule.name}: waits for {unmet}"), unmet)
    return Decision(chosen, (*why, "no further rule matches"))


def held_until(rule: Rule, zone: ZoneInfo, now: dt.datetime) -> dt.datetime | None:
    """When the quiet time ends that it is now by ``rule``, in UTC; None: it is none."""
    if not rule.quiet and not rule.quiet_days:
        return None
    at = now
    for _ in range(_TURNS):
        local = at.astimezone(zone)
        end = _end_of_quiet(rule, local)
        if end is None:
            break
        # Where a clock is put forward or back, it still goes on.
        at = max(end.astimezone(dt.UTC), at + dt.timedelta(minutes=1))
    return at if at > now else None


def idle_patterns(rules: Rules, channels: Collection[str]) -> list[tuple[str, str]]:
    """What rules send to that none of ``channels`` fits: the rule's name and the pattern."""
    return [
        (rule.name, pattern)
        for rule in rules.rule
        for pattern in rule.send
        if channels and not any(fnmatchcase(name, pattern) for name in channels)
    ]


def times(quiet: str) -> tuple[dt.time, dt.time]:
    """The begin and end of "22:00-07:00". Raises ValueError for another text."""
    begin, _, end = quiet.partition("-")
    found = tuple(dt.datetime.strptime(part.strip(), "%H:%M").time() for part in (begin, end))  # noqa: DTZ007 - a time of day
    return found[0], found[1]


def _end_of_quiet(rule: Rule, local: dt.datetime) -> dt.datetime | None:
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    if _DAYS[local.weekday()] in rule.quiet_days:
        return midnight + dt.timedelta(days=1)
    if not rule.quiet:
        return None
    begin, end = times(rule.quiet)
    clock = local.time()
    overnight = begin > end
    if not (clock >= begin or clock < end if overnight else begin <= clock < end):
        return None
    day = midnight + dt.timedelta(days=1 if overnight and clock >= begin else 0)
    return day.replace(hour=end.hour, minute=end.minute)


def _unmet(rule: Rule, subject: Subject) -> str | None:
    """None where the rule matches, "" where it does not, else what must be known to tell."""
    cause = subject.verdict.cause
    unknown = ""
    for name, patterns, value in (
        ("partition", rule.partition, subject.partition),
        ("account", rule.account, subject.account),
        ("user", rule.user, subject.user),
        ("comment", rule.comment, subject.comment),
        ("state", rule.state, subject.state),
        ("cause", rule.cause, cause.id),
        ("domain", rule.domain, cause.domain),
        ("confidence", rule.confidence, cause.confidence),
    ):
        if not patterns:
            continue
        if value is None:
            unknown = unknown or name
        elif not _fits(value, patterns):
            return ""
    for name, asked, met in (
        ("nodes", rule.nodes_min is not None or rule.nodes_max is not None, _nodes(rule, subject)),
        ("interactive", rule.interactive is not None, _interactive(rule, subject)),
        ("repeat", rule.repeat_days is not None, _repeated(rule, subject)),
    ):
        if asked and met is None:
            unknown = unknown or name
        elif asked and not met:
            return ""
    return unknown if unknown and not subject.final else ("" if unknown else None)


def _nodes(rule: Rule, subject: Subject) -> bool | None:
    if subject.nodes is None:
        return None
    least = rule.nodes_min if rule.nodes_min is not None else 0
    return least <= subject.nodes and (rule.nodes_max is None or subject.nodes <= rule.nodes_max)


def _interactive(rule: Rule, subject: Subject) -> bool | None:
    return None if subject.interactive is None else subject.interactive == rule.interactive


def _repeated(rule: Rule, subject: Subject) -> bool:
    if subject.same_at is None or subject.ended_at is None or rule.repeat_days is None:
        return False
    return subject.ended_at - subject.same_at <= dt.timedelta(days=rule.repeat_days)


def _fits(value: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(value, pattern) for pattern in patterns)


def _said(rule: Rule, channels: Sequence[str], until: dt.datetime | None) -> str:
    to = ", ".join(channels) or "nobody"
    held = "" if until is None else f", held until {until:%Y-%m-%dT%H:%M:%SZ}"
    return f"{rule.name}: {to}{held}"
