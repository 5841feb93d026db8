"""Verdicts as hostile as programs, file systems and clocks can make them, by number.

The same number gives the same verdict. Each text of it may be markup, steer a terminal, end a
header, run from right to left, be half a character, empty, or ten megabytes.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from typing import TypeVar

from firstfault.model import verdict as v
from firstfault.model.jobs import CAUSE, FILE_SYSTEM, Delivery, Incident, StoredVerdict
from firstfault.signatures import known_causes

T = TypeVar("T")

AT = dt.datetime(2026, 11, 30, 15, 56, 25, 422961, dt.UTC)
MARKUP = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</body></html><iframe src=//x>",
    "</style></title></code></pre><svg/onload=alert(1)>", "' onmouseover='alert(1)", "]]><!--", "-->",
    "&lt;script&gt; &#x3c; &amp;amp;", "{{ 7*7 }} {% raw %} {# x #}", "${7*7} #{7*7} <%= 7 %>",
    "javascript:alert(1)", "data:text/html;base64,PHNjcmlwdD4=", "<!channel> <!here> <@U012> <#C01|x>",
    "*bold* _it_ ~gone~ `code` ```block``` > quote", "<https://evil.example|click>", "@everyone @here",
    "[click](javascript:alert(1)) ![x](http://evil.example/x.png)", "\\\"'`$(reboot)`;|&&\\",
    "'; DROP TABLE jobs; --", "=HYPERLINK(\"http://evil.example\")", "../../../etc/passwd", "%s %n %(x)s {0}",
)  # fmt: skip
STEERING = (
    "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\", "\x1b[2J\x1b[H",
    "\x9b31m", "\x1bP1$r\x1b\\", "\x08\x08\x08", "\x07", "\x7f", "\x85", "\x0b\x0c", "a\rb", "\x00", "\x1b",
    "x\r\nBcc: victim@example.org\r\n\r\nbody", "x\nSubject: y", "\n\n\n", "\t\t", "\r\n.\r\n", "=?utf-8?q?x?=",
)  # fmt: skip
LETTERS = (
    "\u202egnp.exe", "\u2066\u2067\u2068x\u2069", "\u200b\u200d\ufeff\u2060", "\u2028\u2029", "שלום عالم", "👩‍👩‍👧‍👦🏳️‍🌈",
    "é" + "\u0301" * 500, "漢字" * 40, "\ud83d", "\udc00\ud800", "\udcff", "\ufffe\uffff", "\U0010ffff", "\ue000",
    "ﷺ" * 30, "İIıi", "\u00ad\u034f\u180e", "\U000e0041\U000e0042", "ﬀ", "\u3000\u00a0", "Ａ",
)  # fmt: skip
PLAIN = ("", " ", "x", "a" * 300, "word " * 400, "rank 3 lost a peer", "n4", "/scratch/u/x.py", "0")
SECRETS = (" password=tr0ub4dor ", " hf" + "_" + "q7WzR2" * 6 + " ", " https://bob:tr0ub4dor@db/x ")
LARGE = 10 << 20
CONFIDENCES = (v.CONFIRMED, v.LIKELY, v.POSSIBLE, v.UNKNOWN)


class Maker:
    """Makes values by chance, from one seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def text(self) -> str:
        """A text, hostile as a rule."""
        chance = self._chance
        if chance.random() < 0.00005:
            return chance.choice((*MARKUP, *STEERING, "x ")) * (LARGE // 20)
        pools = (MARKUP, STEERING, LETTERS, PLAIN, SECRETS)
        weights = (6, 6, 6, 5, 1)
        parts = [
            chance.choice(chance.choices(pools, weights)[0])
            for _ in range(chance.choice((1, 1, 2, 5)))
        ]
        return chance.choice(("", " ")).join(parts) * chance.choice((1,) * 20 + (50,))

    def one_of(self, *known: str) -> str:
        """One of what is expected, or anything."""
        return self._chance.choice(known) if self._chance.random() < 0.7 else self.text()

    def maybe(self, make: Callable[[], T]) -> T | None:
        """A value, or None."""
        return make() if self._chance.random() < 0.7 else None

    def number(self) -> int:
        """A whole number, small as a rule."""
        return self._chance.choice((0, 1, 7, 16_383, -1, 2**31, 2**63 - 1, -(2**63)))

    def moment(self) -> dt.datetime:
        """A time, also the first and the last that there are."""
        if self._chance.random() < 0.1:
            ends = ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "1970-01-01T00:00:00Z")
            return dt.datetime.fromisoformat(self._chance.choice(ends))
        return AT + dt.timedelta(
            seconds=self._chance.choice((0, 1e-6, 0.5, 59, 86_400 * 400, -1e9))
        )

    def several(self, make: Callable[[], T], most: int = 4) -> tuple[T, ...]:
        """Some values: none, a few, or more than any report shows."""
        size = self._chance.choice((0, 1, 1, 2, 2, most, most, 60) if most > 1 else (0, 1))
        return tuple(make() for _ in range(size))

    def members(self) -> tuple[v.Member, ...]:
        """Ranks on hosts; now and then all of a large job's."""
        if self._chance.random() < 0.05:
            odd = self.text()
            return tuple(v.Member(rank, f"n{rank // 8}{odd[:3]}") for rank in range(16_384))
        return self.several(lambda: v.Member(self.maybe(self.number), self.maybe(self.text)))

    def ranks(self) -> str:
        """A list of ranks, at its worst each second one of 16,384."""
        if self._chance.random() < 0.05:
            return ",".join(map(str, range(0, 16_384, 2)))
        return self.one_of("3", "0-16,18-31")

    def evidence(self) -> v.Evidence:
        """A line."""
        return v.Evidence(
            role=self.one_of("cause", "consequence"),
            source=self.one_of("kernel log", "job output"),
            host=self.maybe(self.text),
            file=self.text(),
            line=self.maybe(self.number),
            offset=self.maybe(self.number),
            text=self.text(),
        )

    def local(self) -> v.LocalTimes:
        """Times without a zone."""
        naive = lambda: self.moment().replace(tzinfo=None)  # noqa: E731 - a line each
        return v.LocalTimes(self.maybe(naive), self.maybe(naive))

    def link(self) -> v.ChainLink:
        """A step of the story."""
        return v.ChainLink(
            earliest=self.maybe(self.moment),
            latest=self.maybe(self.moment),
            host=self.maybe(self.text),
            rank=self.maybe(self.number),
            what=self.one_of("lost a peer", "got SIGTERM"),
            role=self.one_of("cause", "consequence", "context"),
            evidence=self.maybe(self.number),
            local=self.maybe(self.local),
        )

    def memory(self) -> v.Memory:
        """Who held the memory."""
        holder = lambda: v.Holder(  # noqa: E731 - a line each
            abs(self.number()), self.text(), abs(self.number()), self.maybe(self.number)
        )
        return v.Memory(
            host=self.maybe(self.text),
            limit_kib=self.maybe(lambda: abs(self.number())),
            used_kib=self.maybe(lambda: abs(self.number())),
            holders=self.several(holder),
            rest=self.maybe(lambda: v.Sum(abs(self.number()), abs(self.number()))),
        )

    def remedy(self) -> v.Remedy:
        """What to do."""
        return v.Remedy(
            self.several(self.text), self.several(self.text),
            self.several(self.text), self.several(self.text),
        )  # fmt: skip

    def initiator(self) -> v.Initiator:
        """Who failed first."""
        return v.Initiator(
            rank=self.maybe(self.number),
            local_rank=self.maybe(self.number),
            host=self.maybe(self.text),
            pid=self.maybe(self.number),
            gpu=self.maybe(self.text),
            step=self.maybe(self.text),
            task=self.maybe(self.number),
            attempt=self.maybe(self.number),
            earliest=self.maybe(self.moment),
            latest=self.maybe(self.moment),
            confidence=self.one_of(*CONFIDENCES),
            also=self.members(),
            candidates=self.members(),
            local=self.maybe(self.local),
        )

    def verdict(self) -> v.Verdict:
        """All of it."""
        some, text = self.maybe, self.text
        count = lambda: abs(self.number())  # noqa: E731 - a line each
        return v.Verdict(
            job=v.Job(
                some(text), some(text), some(text), some(text), some(text), some(text),
                some(count), some(count),
            ),
            cause=v.Cause(
                self.one_of(*sorted(known_causes())), text(), self.one_of("user", "system", "either"),
                self.one_of(*CONFIDENCES),
            ),
            initiator=self.initiator(),
            exception=v.ExceptionFacts(some(text), some(text), some(text), some(self.number)),
            alternatives=self.several(lambda: v.Alternative(text(), text(), text())),
            evidence=self.several(self.evidence),
            chain=self.several(self.link),
            consequences=self.several(
                lambda: v.Consequence(text(), self.number(), some(self.ranks), some(self.evidence))
            ),
            unexplained=self.several(self.evidence),
            missing=self.several(lambda: v.Missing(text(), text(), text())),
            remedy=self.remedy(),
            runs=self.several(lambda: v.RunOutcome(some(text), some(self.number), text())),
            fingerprint=some(text),
            coverage=self.several(
                lambda: v.CoverageRow(some(text), some(self.ranks), text(), text(), some(text))
            ),
            notes=self.several(text),
            memory=some(self.memory),
            surroundings=self.several(
                lambda: v.Surroundings(self.number(), self.several(text), self.several(text))
            ),
        )  # fmt: skip


def incident(number: int) -> Incident:
    """The hostile incident of this number."""
    make = Maker(number)
    text, count = make.text, lambda: abs(make.number())
    return Incident(
        key=count(), cluster=make.maybe(text), kind=make.one_of("node", FILE_SYSTEM, CAUSE),
        name=text(), opened_at=make.moment(), last_at=make.moment(),
        ended_at=make.maybe(make.moment), acknowledged_by=make.maybe(text), jobs=count(),
        names=make.several(text), causes=make.several(lambda: (text(), count())),
        hosts=make.several(text),
    )  # fmt: skip


def verdict(number: int) -> v.Verdict:
    """The hostile verdict of this number."""
    return Maker(number).verdict()


def delivery(number: int, current: v.Verdict, previous: v.Verdict | None) -> Delivery:
    """A message about ``current``, and after ``previous``."""
    stored = StoredVerdict(
        cluster="main" if number % 2 else None,
        job=str(number),
        incarnation=1 + number % 3,
        revision=1 + number % 4,
        created_at=AT,
        verdict=current,
    )
    return Delivery(
        key=number,
        delivery_id=f"{number:012x}",
        channel="any",
        attempts=1,
        current=stored,
        previous=previous,
    )
