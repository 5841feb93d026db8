"""Tracebacks and fatal errors, whole, chained, cut and glued to other things."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from firstfault.model.document import Document, Excerpt
from firstfault.model.event import FatalError, Frame, LastWords, Stack, TornTraceback, Traceback
from firstfault.model.line import Speaker
from firstfault.readers.output import read_output
from firstfault.readers.python import parse_exception, parse_traceback
from tests.readers.logs import ZONE, events

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


def test_a_traceback_without_its_tail_is_torn_and_names_no_exception() -> None:
    (found,) = events(HEAD + FRAME)

    assert isinstance(found, TornTraceback)
    assert found.frames == (Frame("/home/u/train.py", 59, "main"),)
    assert found.place.line == 4


def test_a_torn_traceback_that_its_stream_went_on_behind_says_nothing() -> None:
    assert events(HEAD + FRAME + "step 7\n" * 20) == ()


def test_of_a_chain_without_its_end_the_whole_link_is_told_as_cut() -> None:
    link = "\nDuring handling of the above exception, another exception occurred:\n\n"

    (found,) = tracebacks(HEAD + FRAME + "KeyError: 'x'\n" + link + HEAD + FRAME)

    assert (found.type, found.message, found.cut) == ("KeyError", "'x'", True)


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
        "ValueError: caught, step skipped\nstep 8\n",
        "[default3]:ValueError: said\n[default3]:step 8\n",
        HEAD + FRAME + "step: 7 loss 0.5\n",
        HEAD + FRAME + "WARNING: unrelated\n",
        HEAD + FRAME + "INFO:root:unrelated\n",
        HEAD + FRAME + "\n",
        f"    | {HEAD}    | x\n",
        "Traceback is enabled\n",
    ],
)
def test_what_is_no_exceptions_line_makes_no_exception(text: str) -> None:
    assert tracebacks(text) == []


def joined(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


def test_tracebacks_that_ranks_write_alike_into_each_other_are_each_whole() -> None:
    frames = (Frame("/home/u/train.py", 59, "main"), Frame("/home/u/model.py", 7, "forward"))
    text = "".join(
        f"{line}\n" * 3
        for line in (
            HEAD.rstrip(),
            *FRAME.rstrip().split("\n"),
            '  File "/home/u/model.py", line 7, in forward',
            "ValueError: bad",
        )
    )

    found = tracebacks(text)

    assert [(each.type, each.message, each.frames, each.mixed) for each in found] == [
        ("ValueError", "bad", frames, False)
    ] * 3


def test_of_tracebacks_that_differ_and_are_mixed_the_exceptions_are_right_and_no_frame_is_wrong() -> (
    None
):
    other = '  File "/home/u/data.py", line 3, in load'

    found = tracebacks(
        joined(
            HEAD.rstrip(),
            HEAD.rstrip(),
            FRAME.split("\n")[0],
            other,
            "KeyError: 'x'",
            "ValueError: y",
        )
    )

    assert [(each.type, each.message, each.frames, each.mixed) for each in found] == [
        ("KeyError", "'x'", (), True),
        ("ValueError", "y", (), True),
    ]


def test_exceptions_are_found_where_carets_are_glued_to_the_others_lines() -> None:
    found = tracebacks(
        joined(
            HEAD.rstrip(),
            '  File "/home/u/train.py", line 9, in <module>',
            "    cfg = load(path)",
            f"       ^^^^^{HEAD.rstrip()}",
            '  File "/home/u/train.py", line 9, in <module>',
            "^^^^^^^^^^FileNotFoundError: ",
            "    cfg = load(path)",
            "FileNotFoundError: [Errno 2] No such file or directory: 'a.yaml'",
            "E1130 10:00:05.000000 900 torch/distributed/elastic/multiprocessing/api.py:1002] failed "
            "(exitcode: 1) local_rank: 0 (pid: 41) of binary: /opt/venv/bin/python3",
        )
    )

    assert [(each.type, each.message) for each in found] == [
        ("FileNotFoundError", "[Errno 2] No such file or directory: 'a.yaml'")
    ]
    assert found[0].frames == (Frame("/home/u/train.py", 9, "<module>"),)


def test_an_agents_line_ends_what_its_ranks_wrote_into_each_other() -> None:
    agent = '  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 383, in x'
    found = tracebacks(
        f"{HEAD}{HEAD}{FRAME}{FRAME}ValueError: bad\n"
        "E1130 10:00:05.000000 900 torch/distributed/elastic/multiprocessing/api.py:1002] failed "
        "(exitcode: 1) local_rank: 0 (pid: 41) of binary: /opt/venv/bin/python3\n"
        f"{HEAD}{agent}\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    )

    assert [(each.type.rpartition(".")[2], len(each.frames), each.mixed) for each in found] == [
        ("ValueError", 1, False),
        ("ChildFailedError", 1, False),
    ]


def test_last_lines_that_two_ranks_glued_are_two_exceptions() -> None:
    assert [
        (each.type, each.message)
        for each in tracebacks(f"{HEAD}{HEAD}{FRAME}{FRAME}ValueError: badValueError: bad\n")
    ] == [("ValueError", "bad")] * 2


def test_another_writers_lines_among_a_traceback_do_not_hide_its_exception() -> None:
    (found,) = tracebacks(f"{HEAD}{FRAME}step 7 loss 0.5\n\nValueError: bad\n")

    assert (found.type, len(found.frames)) == ("ValueError", 1)


def test_another_writers_lines_among_a_traceback_are_no_exception() -> None:
    assert tracebacks(f"{HEAD}{FRAME}step 7 loss 0.5\nEpoch: 5\nBatch: 7\n") == []


def test_one_process_writes_its_tracebacks_one_after_the_other() -> None:
    lines = (HEAD + HEAD + FRAME + "ValueError: bad").split("\n")

    (found,) = tracebacks("".join(f"[default1]:{line}\n" for line in lines))

    assert (found.frames, found.mixed) == ((Frame("/home/u/train.py", 59, "main"),), False)


def test_a_group_of_one_exception_is_that_exception(tmp_path: Path) -> None:
    code = (
        "def f():\n    raise ValueError('bad')\ntry:\n    f()\nexcept ValueError as e:\n    g = e\n"
    )
    text = crashed(code + "raise ExceptionGroup('both', [g])\n", tmp_path)

    (found,) = tracebacks(text)

    assert (found.type, found.message) == ("ValueError", "bad")
    assert found.frames[-1].line == 2
    assert found.causes == (("ExceptionGroup", "both (1 sub-exception)"),)


def test_a_group_of_several_exceptions_names_them_all(tmp_path: Path) -> None:
    code = "raise ExceptionGroup('all', [ValueError('a'), ExceptionGroup('in', [KeyError('b')])])\n"

    (found,) = tracebacks(crashed(code, tmp_path))

    assert (found.type, found.message) == ("ExceptionGroup", "all (2 sub-exceptions)")
    assert found.causes == (("ValueError", "a"), ("KeyError", "'b'"))
    assert found.frames[-1].line == 1


def test_a_traceback_behind_a_margin_is_read() -> None:
    text = "".join(f"    | {each}\n" for each in (HEAD + FRAME + "ValueError: bad").split("\n"))

    (found,) = tracebacks("worker-0\n" + text + "    | exit 1\nend\n")

    assert (found.type, found.message, len(found.frames)) == ("ValueError", "bad", 1)


def test_what_a_pools_process_raised_is_told_with_its_own_stack(tmp_path: Path) -> None:
    text = crashed(
        "import multiprocessing as m\ndef f(x):\n    raise ValueError('bad')\n"
        "if __name__ == '__main__':\n    m.Pool(1).map(f, [1])\n",
        tmp_path,
    )

    found = tracebacks(text)[-1]

    assert (found.type, found.message, found.causes) == (
        "ValueError",
        "bad",
        (("ValueError", "bad"),),
    )
    assert found.frames[-1].line == 3


def test_what_an_executors_process_raised_is_told_with_its_own_stack(tmp_path: Path) -> None:
    text = crashed(
        "import concurrent.futures as c\ndef f(x):\n    raise ValueError('bad')\n"
        "if __name__ == '__main__':\n    list(c.ProcessPoolExecutor(1).map(f, [1]))\n",
        tmp_path,
    )

    found = tracebacks(text)[-1]

    assert (found.type, found.message, found.frames[-1].line) == ("ValueError", "bad", 3)


def test_the_death_of_a_process_that_multiprocessing_started_is_marked(tmp_path: Path) -> None:
    text = crashed(
        "import multiprocessing as m\ndef f():\n    raise ValueError('bad')\n"
        "if __name__ == '__main__':\n    m.Process(target=f).start()\n",
        tmp_path,
    )

    (found,) = tracebacks(text)

    assert (found.type, found.child, found.thread) == ("ValueError", True, False)


def test_a_threads_death_is_marked(tmp_path: Path) -> None:
    text = crashed(
        "import threading\ndef f():\n    raise ValueError('bad')\nthreading.Thread(target=f).start()\n",
        tmp_path,
    )

    (found,) = tracebacks(text)

    assert (found.type, found.thread, found.child) == ("ValueError", True, False)


@pytest.mark.parametrize(
    "code",
    [
        "class A:\n    def __del__(self):\n        raise ValueError('bad')\nA()\n",
        "import logging\nlogging.warning('%d', 'x')\n",
        "import logging\nlogging.warning('x', stack_info=True)\nprint('ValueError: x')\n",
        "import warnings\nwarnings.warn('x')\n",
        "import faulthandler, time\nfaulthandler.dump_traceback_later(0.1)\ntime.sleep(0.3)\n",
    ],
)
def test_what_python_reports_and_ignores_is_no_exception(code: str, tmp_path: Path) -> None:
    found = events(crashed(code, tmp_path))

    # Where a thread stood, by faulthandler, is told as such.
    assert [each for each in found if not isinstance(each, Stack)] == []


def test_what_torchs_spawn_repeats_is_its_process_own() -> None:
    (found,) = tracebacks(
        f"{HEAD}{FRAME}torch.multiprocessing.spawn.ProcessRaisedException: \n\n"
        f"-- Process 3 terminated with the following error:\n{HEAD}"
        '  File "/home/u/train.py", line 7, in work\nValueError: bad\n\n'
    )

    assert (found.type, found.message, found.spawned) == ("ValueError", "bad", 3)
    assert found.causes == (("torch.multiprocessing.spawn.ProcessRaisedException", ""),)
    assert found.frames[-1].function == "work"


def test_what_ray_repeats_is_its_tasks_own() -> None:
    (found,) = tracebacks(
        f"{HEAD}{FRAME}ray.exceptions.RayTaskError(ValueError): ray::work() (pid=41, ip=10.0.0.2)\n"
        '  File "/home/u/train.py", line 7, in work\n    load()\nValueError: bad\n'
    )

    assert (found.type, found.message, found.frames[-1].function) == ("ValueError", "bad", "work")
    assert found.causes[0][0] == "ray.exceptions.RayTaskError(ValueError)"


def test_a_box_is_read_also_where_a_path_is_broken() -> None:
    (found,) = tracebacks(
        joined(
            "╭────────────── Traceback (most recent call last) ──────────────╮",
            "│ /home/u/train.py:59 in main                                   │",
            "│                                                               │",
            "│ ❱ 59     loss.backward()                                      │",
            "│                                                               │",
            "│ /opt/venv/lib/python3.11/site-packages/torch/nn/modules/modul │",
            "│ e.py:1501 in _call_impl                                       │",
            "╰───────────────────────────────────────────────────────────────╯",
            "ValueError: bad",
        )
    )

    assert (found.type, found.message) == ("ValueError", "bad")
    assert found.frames == (
        Frame("/home/u/train.py", 59, "main"),
        Frame(
            "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", 1501, "_call_impl"
        ),
    )


def test_the_lines_of_torchs_message_are_its_own_and_follow_nothing() -> None:
    (found,) = tracebacks(
        f"{HEAD}{FRAME}RuntimeError: CUDA error: an illegal memory access was encountered\n"
        "CUDA kernel errors might be asynchronously reported at some other API call\n"
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n\n"
        "Exception raised from c10_cuda_check at /src/c10/cuda/CUDAException.cpp:43 "
        "(most recent call first):\n"
        "frame #0: c10::Error::Error(c10::SourceLocation) + 0x57 (0x7f01 in /opt/libc10.so)\n"
    )

    assert found.message == "CUDA error: an illegal memory access was encountered"
    assert len(found.more) == 3
    assert (found.final, found.followed) == (True, 0)


def test_a_message_whose_first_line_is_empty_is_its_second() -> None:
    (found,) = tracebacks(f"{HEAD}{FRAME}RuntimeError: \nExpected all tensors on one device\n")

    assert found.message == "Expected all tensors on one device"


def test_a_caught_exception_is_followed_by_its_programs_further_lines() -> None:
    text = f"{HEAD}{FRAME}ValueError: bad\n" + "step 7\n" * 5

    (found,) = tracebacks("".join(f"[default1]:{line}\n" for line in text.rstrip().split("\n")))

    assert (found.followed, found.final) == (5, False)


def test_what_a_process_says_as_it_ends_does_not_follow_its_exception() -> None:
    (found,) = tracebacks(
        f"{HEAD}{FRAME}ValueError: bad\n"
        "[W1130 10:00:05.091296956 ProcessGroupNCCL.cpp:1250] Warning: WARNING: not destroyed\n"
        "/usr/lib/python3.11/multiprocessing/resource_tracker.py:224: UserWarning: leaked\n"
        "  warnings.warn('leaked')\n"
    )

    assert (found.followed, found.final) == (0, True)


def test_words_in_a_tracebacks_source_are_no_signs() -> None:
    text = f'{HEAD}  File "a.py", line 1, in f\n    print("double free or corruption (!prev)")\n'

    assert [type(each) for each in events(text + "ValueError: bad\n")] == [Traceback]


def test_a_cut_file_mixes_no_traceback_with_that_of_another_stretch() -> None:
    first = (HEAD + FRAME).encode()
    second = (HEAD + '  File "b.py", line 2, in g\nValueError: bad\n').encode()
    cut = Document("a.out", (Excerpt(0, 1, first), Excerpt(9_000, 90, second)))

    (found,) = (e for e in read_output(cut, ZONE).events if not isinstance(e, LastWords))

    assert isinstance(found, Traceback)
    assert (found.frames, found.mixed) == ((Frame("b.py", 2, "g"),), False)


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
