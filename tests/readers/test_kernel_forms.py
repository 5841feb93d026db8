"""A journal's fields, boots, system logs, and a kernel log among a program's output."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault.model.document import Clock
from firstfault.model.event import Holder, KernelSign, OomKill, Trap, Xid
from firstfault.readers.kernel import kernel_events, quoted_kernel_events
from firstfault.readers.kind import Kind, kind
from firstfault.readers.times import Zone
from tests.readers.kernel_lines import DOCUMENTS, fields, journal_json
from tests.readers.logs import ZONE, document
from tests.readers.test_kernel import (
    CLOCK,
    FORMS,
    KILLED,
    SEQUENCE,
    journal,
    kmsg,
    log,
    plain,
    raw_level,
    wall,
)

PANIC = "Kernel panic - not syncing: Fatal machine check"
FIRST = "Linux version 6.18.44 (build@host) (gcc 14.2.0) #1 SMP"


def found(text: str, *, clock: Clock | None = CLOCK) -> list[OomKill | Trap | KernelSign | Xid]:
    return list(kernel_events(document(text, "log.txt", clock=clock), ZONE))


def kills(text: str, *, clock: Clock | None = CLOCK) -> list[OomKill]:
    return [event for event in found(text, clock=clock) if isinstance(event, OomKill)]


@pytest.mark.parametrize("form", DOCUMENTS)
def test_a_kill_is_read_from_a_journals_fields(form: Callable[[list[str]], str]) -> None:
    text = form(SEQUENCE)
    (kill,) = kills(text)

    assert (kill.pid, kill.command, kill.limit_kb) == (11744, "pt_elastic", 1810432)
    assert (kill.job, kill.host) == ("12", "n4")
    assert KILLED in kill.place.text
    assert kill.place.line is not None
    assert text.split("\n")[kill.place.line - 1] == kill.place.text
    assert kill.at is not None
    assert kind(document(text, "a.log")) is Kind.KERNEL


def test_a_journals_time_is_when_it_took_the_line_at_the_latest() -> None:
    (kill,) = kills(journal_json(SEQUENCE), clock=None)

    assert kill.at is not None
    assert kill.at.latest == dt.datetime.fromtimestamp(1_796_054_185.423, dt.UTC)


def test_a_journals_line_that_no_kernel_said_kills_nobody() -> None:
    both = journal_json(["usb 1-1: new device"]) + journal_json(SEQUENCE, transport="syslog")

    assert kills(both) == []


def test_a_message_that_is_a_list_of_bytes_is_text() -> None:
    entry = {**fields("", "n4", "kernel"), "MESSAGE": list(KILLED.encode())}

    assert [kill.pid for kill in kills(json.dumps(entry) + "\n")] == [11744]


def test_boots_are_kept_apart_and_only_the_last_has_the_nodes_clock() -> None:
    other = [each.replace("11744", "11745") for each in SEQUENCE]
    first, last = kills(log([FIRST, *SEQUENCE]) + log([FIRST, *other]))

    assert (first.boot, last.boot) == (1, 2)
    assert first.at is None
    assert last.at is not None


def test_a_clock_that_goes_back_begins_a_boot() -> None:
    early = "".join(f"[    3.10000{n}] {text}\n" for n, text in enumerate(SEQUENCE))

    assert [kill.boot for kill in kills(log(SEQUENCE) + early)] == [1, 2]


def test_a_clock_that_goes_back_by_milliseconds_does_not() -> None:
    text = log(SEQUENCE) + "[ 1629.470000] late\n" + log(SEQUENCE)

    assert {kill.boot for kill in kills(text)} == {None}


@pytest.mark.parametrize("mark", ["-- Boot 0123456789abcdef0123456789abcdef --", "-- Reboot --"])
def test_journalctls_marks_separate_boots(mark: str) -> None:
    text = f"{mark}\n{log(SEQUENCE, journal)}{mark}\n{log(SEQUENCE, journal)}"

    assert [kill.boot for kill in kills(text)] == [1, 2]


def test_parts_of_a_panics_log_in_pstore_are_of_one_boot() -> None:
    text = f"Panic#1 Part1\n{log(SEQUENCE, raw_level)}Panic#1 Part2\n<4>[ 1600.000000] x\n"

    assert [kill.boot for kill in kills(text)] == [None]


def test_another_programs_line_in_a_system_log_kills_nobody() -> None:
    text = log(["usb 1-1: new device"], journal) + f"Nov 30 15:56:25 n4 slurmd[812]: {KILLED}\n"

    assert kills(text) == []


def test_a_line_without_a_head_in_a_persons_file_kills_nobody() -> None:
    assert kills(plain("usb 1-1: new device") + f"\n{KILLED}\n") == []


def test_a_system_log_is_a_kernel_log_and_a_services_output_is_none() -> None:
    lines = [f"Nov 30 15:56:25 n4 systemd[1]: Started unit {n}.\n" for n in range(8)]
    system = log(SEQUENCE[:1], journal) + "".join(lines)
    service = system + "Nov 30 15:56:25 n4 python3[700]: step 1\n"

    assert kind(document(system, "messages")) is Kind.KERNEL
    assert kind(document(service, "messages")) is Kind.OUTPUT


def test_a_kernel_log_below_a_jobs_output_is_quoted() -> None:
    text = "step 1\nstep 2\nstep 3\n" * 3 + "$ dmesg -T\n" + log([*SEQUENCE, PANIC], wall)
    events = list(quoted_kernel_events(document(text), ZONE))

    assert [type(event).__name__ for event in events] == ["OomKill", "KernelSign"]
    assert all(event.quoted for event in events)


@pytest.mark.parametrize("prefix", ["0: ", "0:", "n4:", "[default1]:", "[rank1]: ", "loss 0.1 "])
def test_what_stands_behind_a_prefix_is_no_kernels(prefix: str) -> None:
    text = "step 1\n" + "".join(f"{prefix}{line}\n" for line in log(SEQUENCE).splitlines())

    assert list(quoted_kernel_events(document(text), ZONE)) == []


def test_what_a_program_prints_without_the_kernels_head_is_no_kernels() -> None:
    assert list(quoted_kernel_events(document(f"step 1\n{KILLED}\n"), ZONE)) == []


TEXTS = [*SEQUENCE, PANIC, FIRST, "INFO: task python3:4 blocked for more than 120 seconds.", ""]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_damage_makes_a_kernel_log_fail(data: st.DataObject) -> None:
    form = data.draw(st.sampled_from([*FORMS, *DOCUMENTS]))
    texts = data.draw(st.lists(st.one_of(st.sampled_from(TEXTS), st.text(max_size=40)), max_size=8))
    whole = (form(texts) if form in DOCUMENTS else log(texts, form)).encode("utf-8", "replace")
    cut = data.draw(st.integers(0, max(0, len(whole) - 1)))
    junk = data.draw(st.binary(max_size=6))
    damaged = whole[:cut] + junk + whole[cut + data.draw(st.integers(0, 9)) :]
    torn = document(damaged, "log.txt", clock=data.draw(st.sampled_from([CLOCK, None])))

    for zone in (ZONE, Zone()):
        events = list(kernel_events(torn, zone))
        assert all(event.place.document == "log.txt" for event in events)
        list(quoted_kernel_events(torn, zone))
    assert kind(torn) in Kind


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=20))
def test_no_bytes_make_the_reader_fail(lines: list[bytes]) -> None:
    torn = document(b"\n".join(lines), "log.txt", what="kernel", clock=CLOCK)

    assert isinstance(list(kernel_events(torn, ZONE)), list)


def test_kmsg_of_another_facility_is_no_boot() -> None:
    text = log(SEQUENCE, kmsg) + "12,900,100,-;Linux version x\n"

    assert [kill.boot for kill in kills(text)] == [None]


CAPTURES = sorted((Path(__file__).parent / "kernel").glob("oom-*.txt"))


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_a_real_kill_is_read_alike_from_each_form_that_tools_print(path: Path) -> None:
    text = path.read_text()
    (kill,) = kills(text)

    assert (kill.pid, kill.command, kill.limited, kill.uid) == (31525, "python3", True, 0)
    assert (kill.usage_kb, kill.limit_kb, kill.resident_kb) == (30720, 30720, 30464)
    assert kill.limit_cgroup == kill.cgroup == "/testcg"
    assert kill.holders == (Holder(31525, "python3", 9277 * 4),)
    assert kind(document(text, path.name)) is Kind.KERNEL
