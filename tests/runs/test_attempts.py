"""Events belong to the attempt before whose end they stand."""

from __future__ import annotations

from firstfault.model.event import ExitNoticed, TableEntry, Traceback
from firstfault.runs.attempts import attempts
from tests.readers.logs import events
from tests.readers.test_elastic import table

HEAD = "E1130 16:06:59.358000 {pid} torch/distributed/elastic/multiprocessing/api.py:1002] "
FAILED = "failed (exitcode: 1) local_rank: 0 (pid: {child}) of binary: /usr/bin/python3\n"
TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: x\n'


def end(agent: int, child: int) -> str:
    return HEAD.format(pid=agent) + FAILED.format(child=child)


def numbered(text: str) -> list[tuple[str, int]]:
    found = events(text)
    return [
        (type(event).__name__, number) for event, number in zip(found, attempts(found), strict=True)
    ]


def test_an_agents_failures_end_its_attempts_and_its_table_is_of_the_last() -> None:
    text = TRACEBACK + end(7, 10) + TRACEBACK + end(7, 11) + table()

    assert numbered(text) == [
        (Traceback.__name__, 0),
        (ExitNoticed.__name__, 0),
        (Traceback.__name__, 1),
        (ExitNoticed.__name__, 1),
        (TableEntry.__name__, 1),
        (TableEntry.__name__, 1),
    ]


def test_one_failure_is_the_first_attempt() -> None:
    assert {number for _, number in numbered(TRACEBACK + end(7, 10) + table())} == {0}


def test_what_follows_an_end_without_a_table_is_of_the_next_attempt() -> None:
    assert numbered(end(7, 10) + TRACEBACK)[-1] == (Traceback.__name__, 1)


def test_two_agents_ends_are_no_restarts() -> None:
    assert {number for _, number in numbered(end(7, 10) + end(8, 11) + table() + table())} == {0}


def test_a_run_folder_says_its_attempt() -> None:
    found = events(TRACEBACK, "logs/r/attempt_3/0/stderr.log")

    assert attempts(found) == [3]


def test_no_events_have_no_attempts() -> None:
    assert attempts(()) == []


def test_what_torchrun_raises_above_a_table_that_was_cut_off_is_of_the_last_attempt() -> None:
    raised = TRACEBACK.replace("ValueError: x", "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ")  # fmt: skip

    assert {number for _, number in numbered(TRACEBACK + end(7, 10) + raised)} == {0}


def test_a_log_that_is_cut_in_torchruns_own_traceback_shows_no_restart() -> None:
    cut = 'Traceback (most recent call last):\n  File "/usr/bin/torchrun", line 8, in <module>\n'

    assert {number for _, number in numbered(TRACEBACK + end(7, 10) + cut)} == {0}
