"""A console is taken apart into its speakers, and each is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstfault.model.event import (
    Cancelled,
    ExitNoticed,
    FatalError,
    OomNoticed,
    Sign,
    TableEntry,
    TaskEnd,
    Traceback,
)
from firstfault.model.line import Speaker
from firstfault.readers.output import read_output
from tests.readers.logs import ZONE, document, events

CASES = Path(__file__).parent.parent / "cases"


def test_a_recorded_console_tells_all_that_stands_in_it() -> None:
    data = (CASES / "oom-4n" / "slurm.out").read_bytes()

    output = read_output(document(data), ZONE)

    kinds = {type(event) for event in output.events}
    assert {TableEntry, Traceback, ExitNoticed, OomNoticed, TaskEnd, Cancelled} <= kinds
    assert (3, "n4") in output.task_hosts
    assert {each.speaker.rank for each in output.heard} >= {3, 6}


def test_events_stand_in_the_order_of_their_lines() -> None:
    data = (CASES / "oom-4n" / "slurm.out").read_bytes()

    offsets = [event.place.offset for event in events(data)]

    assert offsets == sorted(offsets)


def test_each_speaker_was_heard_so_often_and_last_there() -> None:
    output = read_output(document("0: [default0]:a\n0: [default1]:b\n0: [default0]:c\n0: \n"), ZONE)

    heard = {(each.speaker.local_rank, each.lines, each.offset) for each in output.heard}
    assert heard == {(0, 2, 32), (1, 1, 16)}


def test_a_stepd_line_of_a_task_tells_the_tasks_host() -> None:
    output = read_output(document("3: a\n3: slurmstepd-n4: error: x\n1: b\n"), ZONE)

    assert output.task_hosts == ((3, "n4"),)


def test_a_traceback_is_final_where_its_own_speaker_says_no_more() -> None:
    text = (
        "[default0]:Traceback (most recent call last):\n[default1]:Traceback (most recent call last):\n"
        '[default0]:  File "a.py", line 1, in f\n[default1]:  File "a.py", line 1, in f\n'
        "[default0]:ValueError: a\n[default1]:ValueError: b\n[default1]:going on\n"
    )

    found = [event for event in events(text) if isinstance(event, Traceback)]

    assert [(each.speaker.local_rank, each.final) for each in found] == [(0, True), (1, False)]


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("double free or corruption (!prev)", "process.abort"),
        ("train.py: error: unrecognized arguments: --lr-sched", "python.arguments"),
        (
            "[rank1]:[E Process.cpp:1] [Rank 1] Watchdog caught collective operation timeout",
            "waited",
        ),
        ("slurmstepd: error: execve(): torchrunn: No such file or directory", "slurm.launch"),
    ],
)
def test_a_line_that_a_signature_knows_is_a_sign(text: str, means: str) -> None:
    (sign,) = (event for event in events(f"step\n{text}\n") if isinstance(event, Sign))

    assert sign.means == means
    assert sign.place.line == 2


def test_a_healthy_log_tells_nothing() -> None:
    text = "".join(f"[rank{n % 4}]: step {n} loss {1 / (n + 1):.4f}\n" for n in range(200))

    assert events(text + "0 errors so far.\n") == ()


def test_a_rank_file_gives_its_speaker_to_every_event() -> None:
    found = events(
        "Fatal Python error: Bus error\n\nCurrent thread 0x1 (most recent call first):\n"
        '  File "a.py", line 3 in f\n',
        "logs/r/attempt_0/3/stderr.log",
    )

    assert [event.speaker for event in found if isinstance(event, FatalError)] == [
        Speaker(local_rank=3, run="r", attempt=0)
    ]


def test_the_same_bytes_cut_anywhere_are_survived() -> None:
    data = (CASES / "oom-4n" / "slurm.out").read_bytes()

    for at in range(0, len(data), 997):
        events(data[at:])
        events(data[: len(data) - at])


def test_bytes_of_any_kind_are_survived() -> None:
    noise = bytes(range(256)) * 64

    assert events(noise) == ()
    assert events(noise.replace(b"\n", b"\r")) == ()
