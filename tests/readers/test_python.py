"""Tracebacks and fatal errors, whole, chained, cut and glued to other things."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from firstfault.model.event import FatalError, Frame, Traceback
from firstfault.model.line import Speaker
from firstfault.readers.python import parse_exception, parse_traceback
from tests.readers.logs import events

HEAD = "Traceback (most recent call last):\n"
FRAME = '  File "/home/u/train.py", line 59, in main\n    loss.backward()\n    ^^^^^^^^^^^^^^^\n'


def tracebacks(text: str | bytes) -> list[Traceback]:
    return [event for event in events(text) if isinstance(event, Traceback)]


def fatal(text: str) -> list[FatalError]:
    return [event for event in events(text) if isinstance(event, FatalError)]


def crashed(code: str, folder: Path, *options: str) -> str:
    """What this machine's own Python writes as ``code`` ends."""
    script = folder / "train.py"
    script.write_text(code)
    found = subprocess.run(
        [sys.executable, *options, str(script)], capture_output=True, timeout=20, check=False
    )
    return found.stderr.decode()


@pytest.mark.parametrize(
    ("ending", "kind", "message"),
    [
        ("ValueError: bad shape", "ValueError", "bad shape"),
        ("ValueError", "ValueError", ""),
        ("ValueError: ", "ValueError", ""),
        ("KeyError: 'a: b'", "KeyError", "'a: b'"),
        ("torch.cuda.OutOfMemoryError: CUDA out", "torch.cuda.OutOfMemoryError", "CUDA out"),
        ("zlib.error: Error -3", "zlib.error", "Error -3"),
        ("__main__.Stop: now", "__main__.Stop", "now"),
        ("queue.Empty", "queue.Empty", ""),
        ("KeyboardInterrupt", "KeyboardInterrupt", ""),
    ],
)
def test_a_traceback_ends_with_its_exception(ending: str, kind: str, message: str) -> None:
    (found,) = tracebacks(HEAD + FRAME + ending + "\n")

    assert (found.type, found.message) == (kind, message)
    assert found.frames == (Frame("/home/u/train.py", 59, "main"),)
    assert found.place.text == ending.rstrip() or found.place.text == ending
    assert found.place.line == 5


def test_nothing_behind_a_traceback_makes_it_final() -> None:
    ended, logged = (
        tracebacks(HEAD + FRAME + "ValueError: x\n"),
        tracebacks(HEAD + FRAME + "ValueError: x\nstep 7\n"),
    )

    assert [each.final for each in ended] == [True]
    assert [each.final for each in logged] == [False]


@pytest.mark.parametrize(
    "between",
    [
        "\nThe above exception was the direct cause of the following exception:\n\n",
        "\nDuring handling of the above exception, another exception occurred:\n\n",
    ],
)
def test_a_chained_traceback_is_one_and_names_its_causes(between: str) -> None:
    text = (HEAD + FRAME + "KeyError: 'x'\n" + between) * 2 + HEAD + FRAME + "ValueError: bad\n"

    (found,) = tracebacks(text)

    assert (found.type, found.message) == ("ValueError", "bad")
    assert found.causes == (("KeyError", "'x'"), ("KeyError", "'x'"))


def test_two_tracebacks_in_a_row_are_two() -> None:
    text = HEAD + FRAME + "KeyError: 'x'\n\n" + HEAD + FRAME + "ValueError: bad\n"

    assert [each.type for each in tracebacks(text)] == ["KeyError", "ValueError"]


def test_a_dataloader_workers_own_traceback_is_the_cause_of_its_owners() -> None:
    text = (
        HEAD
        + FRAME
        + "RuntimeError: Caught ValueError in DataLoader worker process 0.\n"
        + f"Original {HEAD}{FRAME}ValueError: bad sample\n"
    )

    (found,) = tracebacks(text)

    assert (found.type, found.message) == ("ValueError", "bad sample")
    assert found.causes[0][0] == "RuntimeError"


def test_pythons_own_chained_traceback_is_read(tmp_path: Path) -> None:
    text = crashed(
        "def f():\n    raise KeyError('x')\n"
        "try:\n    f()\nexcept KeyError as e:\n    raise ValueError('bad') from e\n",
        tmp_path,
    )

    (found,) = tracebacks(text)

    assert (found.type, found.message, found.final) == ("ValueError", "bad", True)
    assert found.causes == (("KeyError", "'x'"),)
    assert found.frames[-1].line == 6


def test_pythons_own_syntax_error_names_the_broken_file(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def f(:\n    pass\n")

    (found,) = tracebacks(crashed("import broken\n", tmp_path))

    assert found.type == "SyntaxError"
    assert (Path(found.frames[-1].file).name, found.frames[-1].line) == ("broken.py", 1)


def test_pythons_own_deep_recursion_is_read(tmp_path: Path) -> None:
    (found,) = tracebacks(crashed("def f():\n    f()\nf()\n", tmp_path))

    assert found.type == "RecursionError"


def test_a_message_of_many_lines_keeps_its_first(tmp_path: Path) -> None:
    (found,) = tracebacks(
        crashed("raise ValueError('first\\nFile: second\\n\\nthird')\n", tmp_path)
    )

    assert (found.type, found.message) == ("ValueError", "first")


def test_a_traceback_without_its_head_is_read() -> None:
    (found,) = tracebacks("    loss.backward()\n" + FRAME + "ValueError: bad\n")

    assert (found.type, found.frames[0].line) == ("ValueError", 59)


def test_a_traceback_without_its_tail_says_nothing() -> None:
    assert tracebacks(HEAD + FRAME) == []


def test_a_cut_traceback_does_not_hide_the_next_one() -> None:
    assert [each.type for each in tracebacks(HEAD + FRAME + HEAD + FRAME + "ValueError: x\n")] == [
        "ValueError"
    ]


@pytest.mark.parametrize(
    "bar", [" 42%|####      | 42/100 [00:01<00:02, 31.4it/s]", "Epoch 3: ", "\r 10%|#\r 20%|##\r"]
)
def test_a_traceback_glued_to_a_progress_bar_is_read(bar: str) -> None:
    (found,) = tracebacks(bar + HEAD + FRAME + "ValueError: bad\n")

    assert (found.type, len(found.frames)) == ("ValueError", 1)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_indented_traceback_is_read(end: str) -> None:
    text = "".join(f"    {each}{end}" for each in (HEAD + FRAME + "ValueError: bad\n").split("\n"))

    (found,) = tracebacks(text)

    assert (found.type, len(found.frames)) == ("ValueError", 1)


def test_colours_hide_no_traceback() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File \x1b[35m"/home/u/train.py"\x1b[0m, line \x1b[35m59\x1b[0m, in \x1b[35mmain\x1b[0m\n'
        "\x1b[1;35mValueError\x1b[0m: \x1b[35mbad\x1b[0m\n"
    )

    (found,) = tracebacks(text)

    assert (found.type, found.message, found.frames[0].line) == ("ValueError", "bad", 59)


def test_tracebacks_that_two_ranks_write_at_once_are_taken_apart() -> None:
    one = (HEAD + FRAME + "ValueError: one").split("\n")
    two = (HEAD + FRAME + "KeyError: 'two'").split("\n")
    text = "".join(f"[rank0]: {a}\n[rank1]: {b}\n" for a, b in zip(one, two, strict=True))

    found = tracebacks(text)

    assert [(each.speaker.rank, each.type, each.hooked) for each in found] == [
        (0, "ValueError", True),
        (1, "KeyError", True),
    ]


def test_torchs_prefix_tells_an_exception_whose_head_was_cut() -> None:
    (found,) = tracebacks("[rank3]: ValueError: bad\n")

    assert (found.speaker, found.type, found.hooked) == (Speaker(rank=3), "ValueError", True)


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: caught, step skipped\n",
        "[default3]:ValueError: said\n",
        HEAD + FRAME + "step: 7 loss 0.5\n",
        HEAD + FRAME + "WARNING: unrelated\n",
        HEAD + FRAME + "INFO:root:unrelated\n",
        HEAD + FRAME + "\n",
        "Traceback is enabled\n",
    ],
)
def test_what_is_no_exceptions_line_makes_no_exception(text: str) -> None:
    assert tracebacks(text) == []


@pytest.mark.parametrize(
    ("name", "signal"),
    [
        ("Segmentation fault", 11),
        ("Aborted", 6),
        ("Bus error", 7),
        ("Floating-point exception", 8),
        ("Floating point exception", 8),
        ("Illegal instruction", 4),
    ],
)
def test_faulthandler_names_the_signal_and_the_current_threads_stack(
    name: str, signal: int
) -> None:
    text = (
        f"Fatal Python error: {name}\n\n"
        "Thread 0x00007feffa0266c0 (most recent call first):\n"
        '  File "/usr/lib/python3.11/threading.py", line 327 in wait\n\n'
        "Current thread 0x00007ff01ae66b80 (most recent call first):\n"
        '  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at\n'
        '  File "/home/u/train.py", line 25 in fail\n\n'
        "Extension modules: numpy._core (total: 1)\n"
    )

    (found,) = fatal(text)

    assert found.signal == signal
    assert found.frames == (
        Frame("/home/u/train.py", 25, "fail"),
        Frame("/usr/lib/python3.11/ctypes/__init__.py", 519, "string_at"),
    )
    assert found.place.line == 1


def test_this_pythons_own_faulthandler_is_read(tmp_path: Path) -> None:
    text = crashed("import os\n\ndef f():\n    os.abort()\nf()\n", tmp_path, "-X", "faulthandler")

    (found,) = fatal(text)

    assert found.signal == 6
    assert [frame.line for frame in found.frames] == [5, 4]


def test_a_fatal_error_that_ends_the_file_is_kept() -> None:
    (found,) = fatal(
        "step\nFatal Python error: Bus error\n\nCurrent thread 0x1 (most recent call first):\n"
    )

    assert (found.signal, found.frames) == (7, ())


def test_other_fatal_errors_are_no_signals() -> None:
    assert fatal("Fatal Python error: init_import_site: Failed to import the site module\n") == []


def test_a_stored_callstack_gives_its_last_exception() -> None:
    frames, kind, message = parse_traceback(HEAD + FRAME + "a.b.BadError: why\n") or ((), "", "")

    assert (kind, message, frames[-1].line) == ("a.b.BadError", "why", 59)
    assert parse_traceback("nothing") is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ValueError: a", ("ValueError", "a")),
        ("  ValueError: a  ", ("ValueError", "a")),
        ("struct.error: a", ("struct.error", "a")),
        ("done", None),
        ("ERROR: a", None),
        ("two words: a", None),
        ("", None),
    ],
)
def test_an_exceptions_line_is_a_class_and_a_message(
    text: str, found: tuple[str, str] | None
) -> None:
    assert parse_exception(text) == found
