"""The kernel's words of before a node went down: a real journal, and pstore's files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from firstfault_epilog import former_boots
from tests.epilog import former_boot

BEGAN_AT_S = 1_790_000_000.0
BOOTED_AT_S = BEGAN_AT_S + 5000
PRESENT = "11111111-2222-3333-4444-555555555555"
OOM = (700.0, "Out of memory: Killed process 12 (python3) total-vm:3720064kB")
OOPS = (900.123456, "BUG: unable to handle page fault for address: ffffffff")
PANIC = (900.5, "Kernel panic - not syncing: Fatal exception in interrupt")


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a node's journal and its two folders of pstore, all empty."""
    reason = former_boot.missing()
    if reason is not None:
        pytest.skip(reason)
    (tmp_path / "journal").mkdir()
    journalctl = tmp_path / "journalctl"
    journalctl.write_text(f'#!/bin/sh\nexec /usr/bin/journalctl -D {tmp_path}/journal "$@"\n')
    journalctl.chmod(0o755)
    monkeypatch.setattr(former_boots, "JOURNALCTL", (str(journalctl),))
    monkeypatch.setattr(former_boots, "PSTORE", (f"{tmp_path}/sys", f"{tmp_path}/moved"))
    return tmp_path


def read(since_s: float = BEGAN_AT_S) -> list[former_boots.Boot]:
    return former_boots.read(since_s, PRESENT, BOOTED_AT_S)


def said(boot: former_boots.Boot) -> list[tuple[float, str]]:
    return [(line.microseconds / 1e6, line.text.decode()) for line in boot.lines]


def write_journal(kept: Path, *lines: tuple[float, str], boot_id: str = former_boot.ID) -> None:
    target = kept / "journal" / f"{boot_id}.journal"
    former_boot.write_journal(target, BEGAN_AT_S, lines, boot_id)


def test_a_node_that_kept_nothing_gives_nothing(kept: Path) -> None:
    assert read() == []


def test_the_journal_gives_the_boot_before_with_its_clock(kept: Path) -> None:
    write_journal(kept, (0.5, "Linux version 6.1"), OOM)
    write_journal(kept, (1.0, "of the present boot"), boot_id=PRESENT)

    (boot,) = read()

    assert boot.id == former_boot.ID
    assert boot.name == f"journalctl -k -b {former_boot.ID.replace('-', '')}"
    assert said(boot) == [(0.5, "Linux version 6.1"), OOM]
    assert boot.offset_s == pytest.approx(BEGAN_AT_S, abs=0.01)


def test_what_is_older_than_the_job_is_left_out(kept: Path) -> None:
    write_journal(kept, (0.5, "Linux version 6.1"), OOM)
    former_boot.write_pstore(kept / "sys", BEGAN_AT_S + 100, [[(100.0, "Kernel panic")]])

    (boot,) = read(BEGAN_AT_S + 600)

    assert said(boot) == [OOM]


def test_a_node_that_was_booted_twice_gives_both_boots_apart(kept: Path) -> None:
    write_journal(kept, OOM)
    write_journal(kept, OOPS, boot_id=PRESENT.replace("1", "2"))

    assert {boot.id: said(boot) for boot in read()} == {
        former_boot.ID: [OOM],
        PRESENT.replace("1", "2"): [OOPS],
    }


@pytest.mark.parametrize("place", ["sys", "moved/1790000900/001"])
def test_a_panic_s_last_words_are_joined_to_the_journal_of_that_boot(
    kept: Path, place: str
) -> None:
    write_journal(kept, OOM, OOPS)
    parts = [[OOPS, PANIC], [OOM]]
    former_boot.write_pstore(kept / place, BEGAN_AT_S + 901, parts)
    (kept / place / "dmesg.txt").write_text("the same once more")

    (boot,) = read()

    assert said(boot) == [OOM, OOPS, PANIC]
    assert boot.id == former_boot.ID
    assert boot.name.endswith(f" and {kept}/{place.partition('/')[0]}")
    sequences = [line.sequence for line in boot.lines]
    assert sequences == sorted(set(sequences))


def test_last_words_that_no_line_joins_are_joined_by_the_clock(kept: Path) -> None:
    write_journal(kept, OOM)
    former_boot.write_pstore(kept / "sys", BEGAN_AT_S + 901, [[PANIC]])

    (boot,) = read()

    assert said(boot) == [OOM, PANIC]


def test_without_a_journal_the_time_of_the_crash_gives_the_clock(kept: Path) -> None:
    former_boot.write_pstore(kept / "sys", BEGAN_AT_S + 901, [[OOPS, PANIC]])

    (boot,) = read()

    assert (boot.id, boot.name) == (None, f"{kept}/sys")
    assert boot.offset_s == pytest.approx(BEGAN_AT_S, abs=2)


def test_last_words_that_were_moved_after_the_boot_have_no_clock(kept: Path) -> None:
    former_boot.write_pstore(kept / "moved", BOOTED_AT_S + 20, [[PANIC]])

    (boot,) = read()

    assert (boot.id, boot.offset_s) == (None, None)
    assert said(boot) == [PANIC]


def test_what_is_no_such_file_is_left_alone(kept: Path) -> None:
    place = kept / "moved"
    place.mkdir()
    secret = kept / "secret"
    secret.write_text("<4>[    1.000000] Kernel panic\n")
    (place / "dmesg-efi-1").symlink_to(secret)
    os.mkfifo(place / "dmesg-efi-2")
    (place / "dmesg-efi-3.enc.z").write_text("<4>[    1.000000] Kernel panic\n")
    (place / "dmesg-efi-4").write_bytes(os.urandom(100_000) + b"\n<4>[ 1.0] x\n" * 1000)
    (place / "console-ramoops-0").write_text("[    1.000000] Kernel panic\n")

    assert read() == []


def test_huge_files_are_read_in_part(kept: Path) -> None:
    place = kept / "sys"
    place.mkdir()
    for number in range(20):
        lines = (f"<4>[{number:5}.{n:06}] {'x' * 900}\n" for n in range(2000))
        (place / f"dmesg-ramoops-{number}").write_text("".join(lines))

    (boot,) = read()

    assert sum(len(line.data) for line in boot.lines) < 9 << 20


def test_a_line_with_its_thread_or_processor_is_the_same_line(kept: Path) -> None:
    write_journal(kept, OOPS)
    caller = f"<4>[  900.123456][ T1234] {OOPS[1]}\n<0>[  900.500000][    C3] {PANIC[1]}\n"
    (kept / "sys").mkdir()
    (kept / "sys/dmesg-ramoops-0").write_text("Panic#1 Part1\n" + caller)

    (boot,) = read()

    assert said(boot) == [OOPS, PANIC]
