"""torchrun's error.json."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from firstfault.model.line import Speaker
from firstfault.readers.error_file import error_file_event, looks_like_error_file
from tests.readers.logs import document

NAME = "logs/14_y65n6__z/attempt_1/5/error.json"
STACK = 'Traceback (most recent call last):\n  File "/home/u/t.py", line 9, in main\na.b.BadError: why\n'


def error_file(message: object, stack: object = STACK, timestamp: object = "1780000000") -> str:
    info = {"py_callstack": stack, "timestamp": timestamp}
    return json.dumps({"message": {"message": message, "extraInfo": info}})


def test_it_tells_the_exception_its_stack_its_time_and_its_rank() -> None:
    event = error_file_event(document(error_file("BadError: why"), NAME, host="n4"))

    assert event is not None
    assert (event.type, event.message, event.recorded) == ("a.b.BadError", "why", True)
    assert (event.frames[0].file, event.frames[0].line) == ("/home/u/t.py", 9)
    assert event.speaker == Speaker(host="n4", local_rank=5, run="14_y65n6__z", attempt=1)
    assert event.at is not None
    assert event.at.earliest == dt.datetime.fromtimestamp(1780000000, dt.UTC)
    assert event.at.latest == dt.datetime.fromtimestamp(1780000001, dt.UTC)


@pytest.mark.parametrize(
    ("message", "kind", "text"),
    [
        ("ValueError: a: b", "ValueError", "a: b"),
        ("ValueError: a: b\n\n  c", "ValueError", "a: b"),
        ("ValueError: \n  a\nb", "ValueError", "a"),
        ("ValueError: ", "ValueError", ""),
        ("Signal 11 (SIGSEGV) received by PID 7", "", "Signal 11 (SIGSEGV) received by PID 7"),
    ],
)
def test_without_a_stack_the_message_tells(message: str, kind: str, text: str) -> None:
    event = error_file_event(document(error_file(message, stack="")))

    assert event is not None
    assert (event.type, event.message, event.frames) == (kind, text, ())


def test_a_messages_further_lines_are_told_apart() -> None:
    event = error_file_event(document(error_file("ValueError: a\n\n  b\nc")))

    assert event is not None
    assert event.more == ("b", "c")


def test_a_message_may_be_plain_text() -> None:
    event = error_file_event(document('{"message": "ValueError: x"}'))

    assert event is not None
    assert (event.type, event.message, event.at) == ("ValueError", "x", None)


@pytest.mark.parametrize("timestamp", [None, "", "soon", 1e99, "9" * 5_000, "9" * 30, [], 1.5])
def test_a_time_that_is_none_is_left_out(timestamp: object) -> None:
    event = error_file_event(document(error_file("ValueError: x", timestamp=timestamp)))

    assert event is not None
    assert event.at is None


@pytest.mark.parametrize(
    "text",
    [
        error_file("ValueError: x")[:-9],
        "",
        "[]",
        '"message"',
        '{"message": 3}',
        '{"message": {}}',
        '{"message": {"message": null}}',
        "[" * 100_000,
        '{"message": ' * 100_000,
    ],
)
def test_what_is_cut_or_something_else_is_no_error_file(text: str) -> None:
    assert error_file_event(document(text)) is None
    assert not looks_like_error_file(text.encode())


@pytest.mark.parametrize("info", [None, [], "x", {"py_callstack": 3, "timestamp": "1"}])
def test_strange_details_do_no_harm(info: object) -> None:
    text = json.dumps({"message": {"message": "ValueError: x", "extraInfo": info}})

    event = error_file_event(document(text))

    assert event is not None
    assert event.type == "ValueError"


def test_bytes_that_are_not_utf8_make_no_event() -> None:
    assert error_file_event(document(b'{"message": "\xff"}')) is None


def test_what_a_worker_raised_counts_not_that_it_was_raised_anew() -> None:
    caught = (
        "Caught OSError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):"
        '\n  File "/site-packages/torch/utils/data/_utils/worker.py", line 374, in _worker_loop\n'
        "    data = fetcher.fetch(index)\nOSError: no room\n"
    )
    stack = (
        'Traceback (most recent call last):\n  File "/w/train.py", line 9, in train\n'
        f"    batch = next(batches)\nOSError: {caught}"
    )
    event = error_file_event(document(error_file(f"OSError: {caught}", stack), NAME))

    assert event is not None
    assert (event.type, event.message) == ("OSError", "no room")
