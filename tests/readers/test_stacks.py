"""Stacks of processes that go on are read; those of processes that die are another reader's."""

from __future__ import annotations

import subprocess
import sys

import pytest

from firstfault.model.event import FatalError, Frame, Stack
from firstfault.readers.output import read_output
from firstfault.readers.times import zone
from tests.readers.logs import document, events

PROGRAM = """
import faulthandler, signal, threading, time
def wait_for_data(seconds):
    time.sleep(seconds)
threading.Thread(target=time.sleep, args=(2,), daemon=True).start()
{dump}
wait_for_data(1)
"""
SPY = """Process 4711: /opt/venv/bin/python train.py
Python v3.11.2 (/usr/bin/python3.11)

Thread 4711 (idle): "MainThread"
    read_batch (data.py:41)
    main (train.py:97)
Thread 4720 (active+gil): "pin_memory"
    loop (torch/utils/data/_utils/pin_memory.py:55)
"""
BODY = """  File "/home/eve/data.py", line 41 in read_batch
  File "/home/eve/train.py", line 97 in main
"""
HEAD = "(most recent call first):\n"
OTHER = """  File "/usr/lib/python3.11/threading.py", line 320 in wait
"""


def stacks(text: str, name: str = "slurm.out") -> list[Stack]:
    found = document(text, name)
    told = read_output(found, zone(found)).events
    return [event for event in told if isinstance(event, Stack)]


def dumped(dump: str) -> str:
    argv = [sys.executable, "-c", PROGRAM.format(dump=dump)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stderr


@pytest.mark.parametrize(
    "dump",
    [
        "faulthandler.dump_traceback_later(0.5)",
        # no thread may end while faulthandler walks through them all: the kernel's timer sends it
        "faulthandler.register(signal.SIGALRM)\nsignal.setitimer(signal.ITIMER_REAL, 0.5)",
    ],
)
def test_faulthandlers_own_dump_tells_where_the_main_thread_stands(dump: str) -> None:
    (stack,) = stacks(dumped(dump))

    assert stack.frames[-1].function == "wait_for_data"
    assert stack.frames[0].function == "<module>"


@pytest.mark.parametrize(
    ("first", "thread"),
    [
        ("Timeout (0:00:30)!\n", "Thread 0x00007f1"),
        ("Timeout (0:00:30.500000)!\n", "Thread 0x00007f1 [python]"),
        ("", "Current thread 0x00007f1"),
    ],
)
@pytest.mark.parametrize("other", [OTHER, "  <no Python frame>\n"])
def test_the_last_of_a_dumps_threads_is_the_main_one(first: str, thread: str, other: str) -> None:
    text = f"{first}Thread 0x00007f0 {HEAD}{other}\n{thread} {HEAD}{BODY}"

    (stack,) = stacks(text)

    assert stack.frames == (
        Frame("/home/eve/train.py", 97, "main"),
        Frame("/home/eve/data.py", 41, "read_batch"),
    )


def test_py_spys_dump_names_its_process_and_its_main_thread() -> None:
    (stack,) = stacks(SPY)

    assert stack.pid == 4711
    assert [frame.function for frame in stack.frames] == ["main", "read_batch"]
    assert stack.speaker.rank is None


@pytest.mark.parametrize("name", ["n1/py-spy.rank3.txt", "stacks/rank_3.txt", "RANK-3"])
def test_py_spys_dump_is_of_the_rank_that_its_file_is_called_by(name: str) -> None:
    (stack,) = stacks(SPY, name)

    assert stack.speaker.rank == 3


def test_a_dump_after_which_a_step_was_counted_tells_nothing() -> None:
    dump = "Timeout (0:00:30)!\nThread 0x00007f1 (most recent call first):\n" + BODY

    assert stacks(f"step 7\n{dump}step 8\n") == []
    assert len(stacks(f"step 7\nstep 8\n{dump}")) == 1


def test_of_many_dumps_the_last_are_kept() -> None:
    dump = "Timeout (0:00:30)!\nThread 0x00007f1 (most recent call first):\n" + BODY

    assert len(stacks(dump * 500)) == 3


def test_a_fatal_errors_stack_is_none_of_a_process_that_goes_on() -> None:
    fatal = "Fatal Python error: Aborted\n\nCurrent thread 0x00007f1 (most recent call first):\n"

    assert stacks(fatal + BODY) == []
    assert [type(each) for each in events(fatal + BODY)] == [FatalError]


def test_lines_that_only_look_like_a_dumps_beginning_are_none() -> None:
    assert stacks("Process 1: a\nThread pool ready\nTimeout (30 s)\nProcess group: 4\n") == []


def test_a_hostile_dump_is_read_and_kept_short() -> None:
    frames = "".join(f'  File "/a.py", line {n} in f\n' for n in range(5_000))

    (stack,) = stacks("Current thread 0x1 (most recent call first):\n" + frames)

    assert len(stack.frames) == 200
