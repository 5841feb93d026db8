"""The decision table (docs/decision-table.md) holds."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import msgspec
import pytest

from firstfault.faults.effects import WORDING
from firstfault.judge.decide import decide
from firstfault.model.fault import Effect, Fault, Findings, Proof
from firstfault.model.line import Place, Span
from firstfault.model.run import KernelLog, Process, Told
from firstfault.model.slurm import JobFacts
from firstfault.model.verdict import ExceptionFacts

TABLE = Path(__file__).parent.parent.parent / "docs" / "decision-table.md"
NOON = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)


def told(*, state: str | None = None, kernel: str | None = None, since: int | None = None) -> Told:
    whole_since = None if since is None else NOON + dt.timedelta(seconds=since)
    return Told(
        runs=(),
        facts=None if state is None else JobFacts("500", state=state),
        jobs=frozenset({"500"}),
        cluster=None,
        user=None,
        uid=None,
        nodes=("c1", "c2"),
        hosts=frozenset({"c1", "c2"}),
        absent=(),
        kernel=() if kernel is None else (KernelLog("c1", kernel, whole_since),),
        outputs=1,
        exit_status=None,
        derived_status=None,
        zoned=True,
    )


def rank(number: int, host: str = "c1") -> Process:
    return Process(0, number, number % 2, host, 0, None, (700 + number,))


RANK_0 = rank(0)


HUNG = (("hung", "yes"), ("quiet_s", "900"), ("pause_s", "2"), ("told_by", "lines"))
ADVANCING = (("advancing", "yes"), ("quiet_s", "1"), ("pause_s", "2"), ("told_by", "lines"))
STACKS = frozenset({"rank", "stacks"})


def proof(text: str) -> Proof:
    return Proof(Place("slurm.out", len(text), 1, text), "job output")


def at(second: int) -> Span:
    return Span(
        NOON + dt.timedelta(seconds=second), NOON + dt.timedelta(seconds=second, milliseconds=5)
    )


def fault(
    cause: str, process: Process | None = RANK_0, *, key: str = "", second: int | None = None,
    sources: tuple[str, ...] = ("agent", "rank"), host: str | None = None, limit: str = "confirmed",
    sure: bool = True, rank_sure: bool = True, candidates: tuple[Process, ...] = (), facts: tuple[tuple[str, str], ...] = (),
) -> Fault:  # fmt: skip
    return Fault(
        cause=cause,
        key=key or cause,
        process=process,
        host=host or (process.host if process else None),
        candidates=candidates,
        at=None if second is None else at(second),
        sources=frozenset(sources),
        proofs=(proof(f"{cause} {process}"),),
        sure=sure,
        rank_sure=rank_sure,
        limit=limit,
        facts=facts,
    )


PEERS = (Effect("peer-lost", proof("lost"), rank(2, "c2")),)
OOM = fault("memory.cgroup-oom", sources=("kernel", "agent"), key="oom")
ERROR = fault("python.exception")
LIMIT = fault("slurm.time-limit", None, sources=("slurm", "accounting"), facts=(("clock", "c1"),))
NODE = fault("slurm.node-fail", None, sources=("slurm", "accounting"), host="c2")
WAITED = (Effect("waited", proof("waited"), rank(2, "c2")),)


def exited(number: int, code: int, *, heard: bool = True) -> Fault:
    facts = (("exit_code", str(code)), *((("heard", "itself"),) if heard else ()))
    return fault("process.exit", rank(number), key=f"exit {code}", sources=("agent",), facts=facts)


SILENT = exited(3, 1, heard=False)


def timed(one: Fault, second: int) -> Fault:
    return fault(one.cause, one.process, second=second, sources=tuple(one.sources), facts=one.facts)


HELPER = fault("memory.cgroup-oom", None, host="c1", second=1, sources=("kernel",))


ROWS: dict[str, tuple[Told, Findings]] = {
    "oom-joined": (told(), Findings((OOM,), PEERS)),
    "oom-host": (
        told(),
        Findings((fault("memory.cgroup-oom", None, host="c1", candidates=(rank(0), rank(1))),)),
    ),
    "oom-loose": (told(), Findings((fault("memory.cgroup-oom", limit="likely"),), PEERS)),
    "oom-several": (
        told(),
        Findings((OOM, fault("memory.cgroup-oom", rank(1), key="oom", sources=("kernel",)))),
    ),
    "oom-in-turn": (
        told(),
        Findings(
            tuple(
                fault("memory.cgroup-oom", rank(n), key="oom", second=9 - n, sources=("kernel",))
                for n in (0, 1)
            )
        ),
    ),
    "oom-of-nobody-then-exception": (told(), Findings((HELPER, timed(ERROR, 9)))),
    "limit-after-oom-of-nobody": (told(), Findings((HELPER, timed(LIMIT, 9)))),
    "exception": (told(), Findings((ERROR,), PEERS)),
    "exception-alike": (told(), Findings((ERROR, fault("python.exception", rank(1))))),
    "exception-nobodys": (told(), Findings((fault("python.exception", None),))),
    "exception-nobodys-peers": (told(), Findings((fault("python.exception", None),), PEERS)),
    "exception-of-one-of": (
        told(),
        Findings((fault("python.exception", None, candidates=(rank(0), rank(1))),), PEERS),
    ),
    "exception-beside-silence": (told(), Findings((ERROR,), PEERS, (SILENT,))),
    "exception-when-ended": (told(), Findings((fault("python.exception", sure=False),))),
    "exception-cut": (told(), Findings((fault("python.exception", limit="possible"),))),
    "exception-of-a-link": (
        told(),
        Findings((fault("python.exception", limit="possible", sure=False),)),
    ),
    "exception-of-a-file": (told(), Findings((fault("python.exception", limit="likely"),))),
    "two-unordered": (told(), Findings((ERROR, fault("process.segfault", rank(1))))),
    "two-one-clock": (
        told(),
        Findings((timed(ERROR, 1), fault("process.segfault", rank(1), second=2))),
    ),
    "two-two-clocks": (
        told(),
        Findings((timed(ERROR, 1), fault("process.segfault", rank(2, "c2"), second=2))),
    ),
    "segfault": (told(), Findings((fault("process.segfault"),), PEERS)),
    "abort-bare": (told(), Findings((fault("process.abort", sources=("agent",)),), PEERS)),
    "abort-words": (told(), Findings((fault("process.abort", limit="likely"),), PEERS)),
    "killed": (told(kernel="partial"), Findings((fault("process.killed"),), PEERS)),
    "killed-no-oom": (
        told(kernel="full", state="FAILED"),
        Findings((fault("process.killed"),), PEERS),
    ),
    "killed-after-the-ring": (
        told(kernel="partial", state="FAILED", since=0),
        Findings((fault("process.killed", second=600),), PEERS),
    ),
    "killed-near-the-ring": (
        told(kernel="partial", state="FAILED", since=0),
        Findings((fault("process.killed", second=60),), PEERS),
    ),
    "killed-otherwise": (
        told(kernel="full", state="OUT_OF_MEMORY"),
        Findings((fault("process.killed"),), PEERS),
    ),
    "limit": (told(), Findings((LIMIT,))),
    "limit-hung": (told(), Findings((fault("slurm.time-limit", None, facts=HUNG),))),
    "limit-advancing": (told(), Findings((fault("slurm.time-limit", None, facts=ADVANCING),))),
    "stuck-one": (
        told(),
        Findings((LIMIT, fault("process.stuck", limit="likely", sources=STACKS))),
    ),
    "stuck-several": (
        told(),
        Findings(
            (
                LIMIT,
                fault(
                    "process.stuck",
                    None,
                    limit="likely",
                    sources=STACKS,
                    candidates=(RANK_0, rank(1)),
                ),
            )
        ),
    ),
    "limit-line": (told(), Findings((fault("slurm.time-limit", None, limit="likely"),))),
    "limit-then-killed": (told(), Findings((LIMIT, fault("process.killed")))),
    "limit-or-exception": (told(), Findings((LIMIT, ERROR))),
    "limit-after-exception": (told(), Findings((timed(LIMIT, 9), timed(ERROR, 1)))),
    "limit-or-segfault": (told(), Findings((LIMIT, fault("process.segfault")))),
    "node": (told(), Findings((NODE,), PEERS)),
    "node-and-exception": (told(), Findings((NODE, ERROR), PEERS)),
    "exit-heard": (told(), Findings((), PEERS, (exited(3, 3),))),
    "exit-one-heard": (told(), Findings((), PEERS, (exited(3, 1),))),
    "exit-unheard": (told(), Findings((), PEERS, (exited(3, 3, heard=False),))),
    "exit-alike": (told(), Findings((), (), (exited(0, 3), exited(1, 3)))),
    "left-early": (told(), Findings((fault("process.left-early"),), PEERS)),
    "hung-one": (
        told(),
        Findings((fault("collective.timeout", rank_sure=False),), WAITED),
    ),
    "hung-of-several": (
        told(),
        Findings((fault("collective.timeout", None, candidates=(rank(0), rank(1))),), ()),
    ),
    "hung-and-behind": (told(), Findings((fault("collective.timeout"),), WAITED)),
    "behind-one": (
        told(),
        Findings((fault("collective.timeout", limit="likely", rank_sure=False),), WAITED),
    ),
    "behind-several": (
        told(),
        Findings(
            (fault("collective.timeout", None, limit="likely", candidates=(RANK_0, rank(1))),),
            WAITED,
        ),
    ),
    "apart-one": (
        told(),
        Findings((fault("collective.desync", limit="likely", rank_sure=False),), WAITED),
    ),
    "apart-several": (
        told(),
        Findings(
            (fault("collective.desync", None, limit="likely", candidates=(RANK_0, rank(1))),),
            WAITED,
        ),
    ),
    "waited": (told(), Findings((), WAITED)),
    "peers-lost": (told(), Findings((), PEERS)),
    "rendezvous": (
        told(),
        Findings((fault("rendezvous.timeout", None),), (Effect("peer-lost", proof("closed")),)),
    ),
    "echo": (told(), Findings((ERROR, fault("rendezvous.connect", rank(2, "c2"))))),
    "no-device": (told(), Findings((fault("gpu.not-visible"),))),
    "device": (told(), Findings((fault("gpu.ecc"),), PEERS)),
    "fabric": (told(), Findings((fault("gpu.nvlink"),), PEERS)),
    "connection": (told(), Findings((fault("collective.error"),), PEERS)),
    "device-and-kernel": (
        told(),
        Findings((fault("gpu.ecc", sources=("rank", "agent", "kernel")),), PEERS),
    ),
    "silent-one": (told(), Findings((), PEERS, (SILENT,))),
    "silent-several": (
        told(),
        Findings((), PEERS, (SILENT, exited(1, 3))),
    ),
    "nothing": (told(), Findings((), (Effect("ended-by-agent", proof("ended"), rank(0)),))),
}


def table() -> dict[str, tuple[str, str]]:
    rows = re.findall(r"^\| ([a-z-]+) \| .+ \| (\w+) \| (\w+) \|$", TABLE.read_text(), re.MULTILINE)
    return {name: (cause, who) for name, cause, who in rows if name != "case"}


@pytest.mark.parametrize("name", sorted({*ROWS, *table()}))
def test_a_row_of_the_table_is_what_is_decided(name: str) -> None:
    judgement = decide(*ROWS[name])

    assert (judgement.confidence, judgement.initiator_confidence) == table()[name]


def test_of_ranks_killed_in_turn_the_first_is_the_initiator_though_its_number_is_higher() -> None:
    judgement = decide(*ROWS["oom-in-turn"])

    assert [each.process.rank for each in judgement.roots if each.process] == [1]
    assert [each.kind for each in judgement.effects] == ["repeated"]


def test_ranks_that_failed_alike_are_told_from_the_lowest_up() -> None:
    judgement = decide(
        told(), Findings((fault("python.exception", rank(5)), fault("python.exception", rank(2))))
    )

    assert [each.process.rank for each in judgement.roots if each.process] == [2, 5]


def test_an_exception_that_clearly_followed_the_time_limit_is_its_effect() -> None:
    judgement = decide(told(), Findings((timed(LIMIT, 1), timed(ERROR, 9))))

    assert judgement.cause == "slurm.time-limit"
    assert judgement.confidence == "confirmed"
    assert [each.kind for each in judgement.effects] == ["teardown"]


def test_a_killed_ranks_exception_does_not_hide_that_slurm_ended_the_job_earlier() -> None:
    judgement = decide(told(), Findings((LIMIT, fault("process.killed"), ERROR)))

    assert judgement.confidence != "confirmed"


def test_every_effect_that_can_be_decided_has_words() -> None:
    kinds = {effect.kind for row in ROWS.values() for effect in decide(*row).effects}

    assert kinds <= set(WORDING)


def raised(number: int, *, sure: bool = True, limit: str = "confirmed") -> Fault:
    one = fault("python.exception", rank(number), key="ValueError a.py:3", sure=sure, limit=limit)
    return msgspec.structs.replace(one, exception=ExceptionFacts("ValueError", "bad", "a.py", 3))


def test_a_rank_that_was_ended_as_it_raised_what_another_raised_failed_alike() -> None:
    judgement = decide(told(), Findings((raised(0, sure=False), raised(1))))

    assert [each.process.rank for each in judgement.roots if each.process] == [0, 1]
    assert (judgement.confidence, judgement.initiator_confidence) == ("confirmed", "confirmed")


def test_a_rank_of_which_only_a_torn_line_tells_so_is_not_counted_among_them() -> None:
    judgement = decide(told(), Findings((raised(0, sure=False, limit="possible"), raised(1))))

    assert [each.process.rank for each in judgement.roots if each.process] == [1]
