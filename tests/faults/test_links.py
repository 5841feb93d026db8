"""Links that failed by the kernel's word, and the ranks that lost each other by them."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from tests.diagnosis import made
from tests.diagnosis.recording import fabric
from tests.diagnosis.recording.two_nodes import Made, console, nccl
from tests.faults.test_system import said

ALL = range(4)
COMPLETED = {n: [nccl(n, fabric.COMPLETION.format(7))] for n in ALL}


def judged(case: Made, host: str = "n2", *, lines: list[str]) -> v.Verdict:
    return made.judged(
        made.console(console(case)),
        made.kernel_log(host, lines),
        made.accounting("FAILED", nodes="n[1-2]"),
    )


LOST = Made("", "", "", error=dict.fromkeys(ALL, fabric.LOST), words=COMPLETED, first=0)
FAILED = Made("", "", "", error=dict.fromkeys(ALL, fabric.SYSTEM), words=COMPLETED, first=0)
WAITED = Made(
    "", "", "", words={n: list(fabric.watchdog(n)) for n in ALL}, codes=dict.fromkeys(ALL, -6)
)


@pytest.mark.parametrize("case", [LOST, FAILED, WAITED], ids=["lost", "failed", "waited"])
@pytest.mark.parametrize("line", [fabric.PORT, fabric.HEALTH])
def test_a_link_that_failed_before_the_ranks_is_why_they_lost_each_other(
    case: Made, line: str
) -> None:
    verdict = judged(case, lines=said(line))

    assert (verdict.cause.id, verdict.cause.confidence) == ("collective.network", v.LIKELY)
    assert (verdict.initiator.rank, verdict.initiator.host) == (None, "n2")
    assert verdict.evidence[0].source == "kernel log"


@pytest.mark.parametrize(
    "lines",
    [said(fabric.PORT, at_s=4000), said(fabric.PORT_UP), said(fabric.UNPLUGGED)],
    ids=["after the ranks", "a link that came up", "a port without a cable"],
)
def test_another_line_of_a_link_makes_nothing_likely(lines: list[str]) -> None:
    verdict = judged(LOST, lines=lines)

    assert verdict.cause.id != "collective.network" or verdict.cause.confidence == v.POSSIBLE


def test_what_a_rank_raised_of_its_own_is_not_a_links() -> None:
    error = {2: fabric.PLAIN, **dict.fromkeys((0, 1, 3), fabric.LOST)}
    verdict = judged(Made("", "", "", error=error), lines=said(fabric.PORT))

    assert verdict.cause.id == "python.exception"


def test_a_card_that_failed_is_not_a_links() -> None:
    error = {2: fabric.UNHANDLED, **dict.fromkeys((0, 1, 3), fabric.LOST)}
    verdict = judged(Made("", "", "", error=error), "n1", lines=said(fabric.PORT))

    assert verdict.cause.id == "collective.error"


def test_a_program_that_prints_such_a_line_makes_nothing_likely() -> None:
    text = console(LOST)
    printed = made.console([*text[:6], *[f"[Mon Nov 30 09:59:55 2026] {fabric.PORT}"], *text[6:]])
    verdict = made.judged(printed, made.accounting("FAILED", nodes="n[1-2]"))

    assert verdict.cause.id != "collective.network" or verdict.cause.confidence == v.POSSIBLE
