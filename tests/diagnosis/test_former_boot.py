"""A node that went down tells why in its next boot's record: the kernel log of before."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

from firstfault.diagnosis import diagnose
from firstfault.intake.case import case
from firstfault.model import verdict as v
from firstfault.model.evidence import EvidenceRecord
from firstfault.model.slurm import JobFacts
from tests.intake.records import BOOT, file, record

CASE = Path(__file__).resolve().parents[1] / "cases/made-panic"
FORMER = "3f2a61cd-0f8e-4c1f-9a0b-5d6e7f801122"
STARTED_AT = dt.datetime(2026, 11, 30, 14, 18, 5, tzinfo=dt.UTC)
PANIC_AT = dt.datetime(2026, 11, 30, 14, 20, 6, tzinfo=dt.UTC)
BOOTED_AT = dt.datetime(2026, 11, 30, 14, 22, 10, tzinfo=dt.UTC)
ENDED_AT = dt.datetime(2026, 11, 30, 14, 22, 35, tzinfo=dt.UTC)
UP_S = 5000.0
NODES = "n[1-2]"


def texts_of_the_panic() -> list[str]:
    lines = (CASE / "n2/console.log").read_text().splitlines()
    return [line.partition("] ")[2] for line in lines]


def kernel_file(name: str, texts: list[str], up_s: float, **more: Any) -> dict[str, Any]:
    lines = "".join(
        f"0,{1000 + number},{int(up_s * 1e6) + number},-;{text}\n"
        for number, text in enumerate(texts)
    )
    return file(name, "kernel", lines, **more)


def former(texts: list[str], offset_s: float | None) -> dict[str, Any]:
    name = f"journalctl -k -b {FORMER.replace('-', '')}"
    return kernel_file(name, texts, UP_S, boot_id=FORMER, kernel_offset_s=offset_s)


def records(*kernel_logs: dict[str, Any]) -> list[EvidenceRecord]:
    """Of both nodes; n2 was booted during the job."""
    clock = {"kernel_offset_s": BOOTED_AT.timestamp(), "uncertainty_s": 0.01, "utc_offset_s": 0}
    rebooted = {
        "what": "kernel", "path": "/dev/kmsg", "state": "partial", "reason": "rebooted",
        "since": BOOTED_AT.isoformat(),
    }  # fmt: skip
    output = file("/home/mira/slurm-7181.out", "job-output", (CASE / "slurm-7181.out").read_text())
    common: dict[str, Any] = {"job": "7181", "nodes": NODES, "ended_at": ENDED_AT}
    return [
        record("n1", boot_id=BOOT, clock=clock, files=[output], **common),
        record(
            "n2",
            boot_id=BOOT.replace("1", "9"),
            clock=clock,
            files=[kernel_file("/dev/kmsg", ["Linux version 6.1"], 0.0), *kernel_logs],
            coverage=[rebooted],
            **common,
        ),
    ]


def judged(*kernel_logs: dict[str, Any], state: str = "NODE_FAIL") -> v.Verdict:
    facts = JobFacts(id="7181", state=state, nodes=NODES, started_at=STARTED_AT, ended_at=ENDED_AT)
    return diagnose(case(records(*kernel_logs), facts))


def test_a_panic_before_the_boot_is_the_cause_on_that_host() -> None:
    verdict = judged(former(texts_of_the_panic(), PANIC_AT.timestamp() - UP_S))

    assert (verdict.cause.id, verdict.cause.confidence) == ("node.kernel", v.CONFIRMED)
    assert verdict.initiator.host == "n2"
    (panic,) = [link for link in verdict.chain if link.role == "cause"]
    assert panic.earliest is not None
    assert abs(panic.earliest - PANIC_AT) <= dt.timedelta(seconds=3)
    assert verdict.evidence[0].text is not None
    assert "Kernel panic" in verdict.evidence[0].text


def test_its_times_are_of_its_own_boot() -> None:
    """By the clock of the boot after, the panic would be of 80 minutes after the job."""
    verdict = judged(former(texts_of_the_panic(), PANIC_AT.timestamp() - UP_S), state="FAILED")

    assert (verdict.cause.id, verdict.initiator.host) == ("node.kernel", "n2")


def test_a_panic_of_an_earlier_job_s_time_is_none_of_this_one_s() -> None:
    yesterday = PANIC_AT.timestamp() - UP_S - 86_400

    verdict = judged(former(texts_of_the_panic(), yesterday), state="FAILED")

    assert verdict.cause.id != "node.kernel" or verdict.cause.confidence != v.CONFIRMED


def test_a_machine_check_before_the_panic_is_the_narrower_cause() -> None:
    check = [
        "mce: [Hardware Error]: CPU 15: Machine Check Exception: 5 Bank 6: bb80000000000175",
        "Kernel panic - not syncing: Fatal machine check",
    ]

    verdict = judged(former(check, PANIC_AT.timestamp() - UP_S))

    assert (verdict.cause.id, verdict.initiator.host) == ("node.machine-check", "n2")


def test_without_a_clock_a_panic_counts_where_slurm_says_that_the_node_failed() -> None:
    verdict = judged(former(texts_of_the_panic(), None))

    assert (verdict.cause.id, verdict.initiator.host) == ("node.kernel", "n2")
