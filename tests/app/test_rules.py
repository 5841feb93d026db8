"""Rules: who gets what, by values alone, and the file they come from."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest

from firstfault.app.rules import Rule, Rules, Subject, decide, held_until
from firstfault.app.rules_file import load, parse
from firstfault.config import ConfigError
from firstfault.model import verdict as v

NOW = dt.datetime(2026, 12, 1, 12, tzinfo=dt.UTC)  # a Tuesday
CHANNELS = ("slack", "mail-owner", "mail-admins")
BERLIN = ZoneInfo("Europe/Berlin")
EXAMPLE = Path(__file__).parents[2] / "etc" / "examples" / "rules.toml"


def verdict(
    cause: str = "gpu.ecc", domain: str = "system", confidence: str = "confirmed"
) -> v.Verdict:
    return v.Verdict(job=v.Job(id="12"), cause=v.Cause(cause, cause, domain, confidence))


def subject(**known: object) -> Subject:
    return Subject(**{"verdict": verdict(), **known})  # type: ignore[arg-type]


def sent(rules: Rules, about: Subject, now: dt.datetime = NOW) -> list[str]:
    return list(decide(rules, about, CHANNELS, now).channels)


def only(**asked: object) -> Rules:
    """One rule that sends to slack what it asks for."""
    return Rules(rule=(Rule(name="r", send=("slack",), **asked),))  # type: ignore[arg-type]


def test_without_rules_every_channel_gets_everything() -> None:
    assert sent(Rules(), subject()) == list(CHANNELS)


def test_the_first_rule_that_matches_decides() -> None:
    rules = Rules(
        rule=(
            Rule(name="tests", partition=("debug*",), send=()),
            Rule(name="all", send=("slack",)),
        )
    )

    assert sent(rules, subject(partition="debug-gpu")) == []
    assert sent(rules, subject(partition="main")) == ["slack"]


def test_a_rule_that_continues_lets_the_next_ones_add() -> None:
    rules = Rules(
        rule=(
            Rule(name="owner", send=("mail-owner",), go_on=True),
            Rule(name="admins", domain=("system",), send=("mail-admins", "mail-owner")),
            Rule(name="never reached", send=("slack",)),
        )
    )

    assert sent(rules, subject()) == ["mail-owner", "mail-admins"]


def test_where_no_rule_matches_nobody_is_told() -> None:
    decided = decide(only(user=("alice",)), subject(user="bob"), CHANNELS, NOW)

    assert decided.channels == {}
    assert decided.why == ("no further rule matches",)


@pytest.mark.parametrize(
    ("asked", "known", "met"),
    [
        ({"partition": ("gpu",)}, {"partition": "gpu"}, True),
        ({"account": ("phys*",)}, {"account": "physics"}, True),
        ({"account": ("phys",)}, {"account": "physics"}, False),
        ({"user": ("bob", "alice")}, {"user": "alice"}, True),
        ({"comment": ("*no-messages*",)}, {"comment": "a b no-messages"}, True),
        ({"comment": ("*no-messages*",)}, {"comment": ""}, False),
        ({"state": ("TIMEOUT",)}, {"state": "FAILED"}, False),
        ({"cause": ("gpu.*",)}, {}, True),
        ({"cause": ("memory.*",)}, {}, False),
        ({"domain": ("user", "either")}, {}, False),
        ({"confidence": ("confirmed",)}, {}, True),
        ({"nodes_min": 8}, {"nodes": 8}, True),
        ({"nodes_min": 8}, {"nodes": 7}, False),
        ({"nodes_max": 8}, {"nodes": 9}, False),
        ({"interactive": True}, {"interactive": True}, True),
        ({"interactive": False}, {"interactive": True}, False),
        ({"cause": ("gpu.*",), "user": ("alice",)}, {"user": "bob"}, False),
    ],
)
def test_a_rule_asks(asked: dict[str, object], known: dict[str, object], met: bool) -> None:
    assert sent(only(**asked), subject(**known)) == (["slack"] if met else [])


def test_a_failure_is_a_repeat_within_the_days_of_the_rule() -> None:
    about = subject(same_at=NOW - dt.timedelta(days=3), ended_at=NOW)

    assert sent(only(repeat_days=7.0), about) == ["slack"]
    assert sent(only(repeat_days=2.0), about) == []
    assert sent(only(repeat_days=7.0), subject(ended_at=NOW)) == []


def test_what_only_slurm_knows_is_waited_for() -> None:
    rules = Rules(
        rule=(Rule(name="no salloc", interactive=True, send=()), Rule(name="all", send=("slack",)))
    )

    waiting = decide(rules, subject(final=False), CHANNELS, NOW)

    assert (waiting.channels, waiting.waits_for) == ({}, "interactive")
    assert sent(rules, subject(final=True)) == ["slack"]
    assert sent(rules, subject(final=False, interactive=False)) == ["slack"]


def test_nothing_is_waited_for_where_the_rest_of_the_rule_does_not_match() -> None:
    rules = only(interactive=True, cause=("memory.*",))

    assert decide(rules, subject(final=False), CHANNELS, NOW).waits_for == ""


def test_what_nobody_knows_never_matches() -> None:
    assert sent(only(comment=("*",)), subject(comment=None)) == []


@pytest.mark.parametrize(
    ("now", "until"),
    [
        ("2026-12-01T21:30+01:00", None),
        ("2026-12-01T22:00+01:00", "2026-12-02T07:00+01:00"),
        ("2026-12-02T06:59+01:00", "2026-12-02T07:00+01:00"),
        ("2026-12-02T07:00+01:00", None),
        # Friday night: Saturday and Sunday are quiet too, and so is Monday until seven.
        ("2026-12-04T23:00+01:00", "2026-12-07T07:00+01:00"),
        # The night in which clocks are put forward, and the one in which they are put back.
        ("2027-03-27T12:00+01:00", "2027-03-29T07:00+02:00"),
        ("2026-10-24T12:00+02:00", "2026-10-26T07:00+01:00"),
    ],
)
def test_a_quiet_time_ends_by_the_clock_on_the_wall(now: str, until: str | None) -> None:
    rule = Rule(name="r", quiet="22:00-07:00", quiet_days=("sat", "sun"))

    held = held_until(rule, BERLIN, dt.datetime.fromisoformat(now).astimezone(dt.UTC))

    assert held == (None if until is None else dt.datetime.fromisoformat(until))


def test_a_quiet_time_within_a_day_ends_that_day() -> None:
    rule = Rule(name="r", quiet="12:00-13:30")

    assert held_until(rule, ZoneInfo("UTC"), NOW) == NOW + dt.timedelta(minutes=90)


def test_six_quiet_days_end() -> None:
    days = ("tue", "wed", "thu", "fri", "sat", "sun")
    rule = Rule(name="r", quiet_days=days)  # type: ignore[arg-type]

    assert held_until(rule, ZoneInfo("UTC"), NOW) == dt.datetime(2026, 12, 7, tzinfo=dt.UTC)


def test_why_tells_each_rule_that_was_applied() -> None:
    rules = Rules(
        timezone="Europe/Berlin",
        rule=(
            Rule(name="owner", send=("mail-owner",), quiet="12:00-15:00", go_on=True),
            Rule(name="rest", send=()),
        ),
    )

    decided = decide(rules, subject(), CHANNELS, NOW)

    assert decided.why == (
        "owner: mail-owner, held until 2026-12-01T14:00:00Z",
        "rest: nobody",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[rule]", "f: is not TOML"),
        ("rules = []", "f: unknown key 'rules'. Did you mean 'rule'?"),
        ("[rule]\nname = 'x'", "write [[rule]]"),
        ("[[rule]]\nname = 'x'\npartion = ['a']", "rule 1 ('x'): unknown key 'partion'. Did you"),
        ("[[rule]]\nsend = []", "rule 1: Object missing required field `name`"),
        ("[[rule]]\nname = 'x'\npartition = 'a'", "rule 1 ('x'): partition: Expected `array`"),
        ("[[rule]]\nname = 'x'\ndomain = ['users']", 'it may be "user", "system", "either"'),
        (
            "[[rule]]\nname = 'x'\nquiet = '22-7'",
            "quiet is '22-7'; it must be like \"22:00-07:00\"",
        ),
        ("[[rule]]\nname = 'x'\nquiet = '07:00-07:00'", "quiet is '07:00-07:00'; it must be"),
        ("[[rule]]\nname = 'x'\nrepeat_days = 0", "it must be more than 0"),
        ("[[rule]]\nname = 'x'\nrepeat_days = nan", "it must be more than 0"),
        ("[[rule]]\nname = 'x'\nnodes_min = 9\nnodes_max = 8", "no job has so many"),
        ("timezone = 'Mars/Olympus'", "timezone is 'Mars/Olympus'"),
        ("timezone = '../../etc/passwd'", "timezone is '../../etc/passwd'"),
        ("[lists]\nadmins = ['hpc at x']", "lists.admins: 'hpc at x' is no mail address"),
        ("[lists]\nadmins = []", "lists.admins: names no address"),
        ("[lists]\n'A b' = ['a@b.c']", "lists.A b: a list's name has"),
        ("[lists]\nowner = ['a@b.c']", 'is not "owner"'),
    ],
)
def test_a_mistake_is_told_with_its_rule_and_remedy(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(text, "f")

    assert said in str(error.value)
    assert str(error.value).startswith("f: ")


def test_the_example_is_sound() -> None:
    rules = load(EXAMPLE)

    assert rules.rule
    assert rules.lists


def test_the_page_has_every_key_of_a_rule() -> None:
    page = (EXAMPLE.parents[2] / "docs" / "delivery.md").read_text("utf-8")
    rules = page.partition("## Rules")[2].partition("## Mail")[0]

    keys = {field.encode_name for field in msgspec.structs.fields(Rule)}
    assert set(re.findall(r"^\| `([a-z_]+)` \| (?:needed|none|`[^|]*`) \|", rules, re.M)) == keys
