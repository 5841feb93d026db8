import re
import shlex

import pytest
from rich.cells import cell_len

from firstfault.model import verdict as v
from firstfault.report import text
from tests.report import verdicts as examples

ALL = {**examples.EXAMPLES, "hostile": examples.hostile(), "huge": examples.huge()}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("width", [40, 80, 133])
def test_no_line_is_wider_than_the_terminal(name: str, width: int):
    lines = text.render(ALL[name], width=width).splitlines()
    # A word of a command is never broken: it is there to be pasted.
    prose = [line for line in lines if "--format=" not in line]

    assert [line for line in prose if cell_len(line) > width] == []


@pytest.mark.parametrize("name", ALL)
def test_without_colour_nothing_but_printable_text_comes_out(name: str):
    lines = text.render(ALL[name]).split("\n")

    assert [line for line in lines if not line.isprintable()] == []


@pytest.mark.parametrize("name", ALL)
def test_colour_changes_nothing_but_the_colour(name: str):
    painted = text.render(ALL[name], color=True)
    escapes = set(re.findall(r"\x1b\[[0-9;]*m", painted))

    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == text.render(ALL[name])
    assert escapes <= {f"\x1b[{code}m" for code in ("0", "1", "2", "1;31", "1;32", "1;33")}


def test_the_answer_comes_first():
    lines = text.render(examples.EXCEPTION).splitlines()

    assert lines[:5] == [
        "ValueError on rank 3: batch 17 is empty",
        "rank 3 on n2 · cause confirmed · rank and host confirmed",
        "not after 2026-11-30 15:36:03 UTC",
        "ValueError: batch 17 is empty",
        "(rank log of n2, ranks/r_1/attempt_0/1/stderr.log line 9)",
    ]


def quoting(raw):
    line = v.Evidence("cause", "job output", "n1", "n1.log", 1, 0, raw)
    return text.render(
        v.Verdict(job=v.Job(), cause=examples.NONE.cause, evidence=(line,)), width=80
    )


def test_a_raw_line_is_wrapped_so_that_its_end_is_seen():
    raw = "E1130 torch/distributed/elastic/multiprocessing/api.py:1002] " * 3 + "exitcode: -9"
    rows = quoting(raw).splitlines()[2:]
    end = next(k for k, row in enumerate(rows) if row.startswith("(job output"))

    assert " ".join(row.strip() for row in rows[:end]) == raw
    assert all(row.startswith("  ") for row in rows[1:end])


def test_a_very_long_raw_line_is_cut_with_an_ellipsis():
    rows = quoting("x" * 900).splitlines()[2:]

    assert [len(row) for row in rows[:5]] == [80] * 5
    assert rows[4].endswith("…")
    assert rows[5].startswith("(job output")


def test_wide_characters_count_as_two_cells():
    line = v.Evidence("cause", "job output", "n1", "日本語" * 30, 1, 0, "漢字" * 100)
    shown = text.render(v.Verdict(job=v.Job(), cause=examples.NONE.cause, evidence=(line,)))

    assert max(cell_len(row) for row in shown.splitlines()) <= 80
    assert "日本語" * 10 in shown


@pytest.mark.parametrize(
    "command",
    [
        "ssh n4 \"journalctl -k --since '2026-11-30 15:50:00 UTC'\" | grep -i oom",
        "srun -n 1 python3 -c 'import importlib, sys; print(sys.path, sys.version_info)' a\\ b",
        "echo " + "word " * 60 + "'quoted  with  blanks'",
        'echo "never closed with words ' + "x " * 60,
        "x" * 300 + " tail",
        'echo ends in a backslash and is long enough to be broken somewhere here "\\',
    ],
)
def test_a_command_that_was_broken_over_lines_is_still_the_same_command(command: str):
    verdict = v.Verdict(
        job=v.Job(), cause=examples.NONE.cause, remedy=v.Remedy(commands=(command,))
    )
    shown = text.render(verdict, width=60)
    start = shown.index("What to do\n") + len("What to do\n")
    pasted = shown[start : shown.index("\n\n", start)].replace("\\\n", "")

    assert words(pasted) == words(command)


def words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def test_a_very_narrow_terminal_gets_forty_columns():
    assert text.render(examples.NONE, width=1) == text.render(examples.NONE, width=40)


def test_a_path_that_does_not_fit_is_broken_after_a_slash():
    line = v.Evidence(
        "cause", "rank log", "n1", "/scratch/run/attempt_0/local_rank_1/stderr.log", 3, 0, "x"
    )
    verdict = v.Verdict(job=v.Job(), cause=examples.NONE.cause, evidence=(line,))
    lines = text.render(verdict, width=44).splitlines()

    assert lines[4:6] == ["/scratch/run/attempt_0/local_rank_1/", "stderr.log line 3)"]
