"""The question which ends are wanted, and what becomes of its answers."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from firstfault.intake import questions
from firstfault_epilog import wanted
from firstfault_epilog.wanted import LATER, NO, YES, Word
from tests.epilog.test_ends import ENDED_AT_S, entry


def test_the_daemon_reads_the_question_as_the_node_means_it() -> None:
    end = entry(SLURM_JOB_SLUID="s5K1KKYAYG5D00")

    question = questions.decode(wanted.question("n3", None, [wanted.row(end, "8a3f")]))

    (asked,) = question.asked
    assert (question.node, question.cluster) == ("n3", None)
    assert (asked.id, asked.job, asked.run) == ("8a3f", "12", "sluid:s5K1KKYAYG5D00")
    assert asked.ended_at == dt.datetime.fromtimestamp(ENDED_AT_S, dt.UTC)
    assert asked.nodes == "n[3-4]"
    assert questions.is_run(asked.run)
    assert wanted.ASKED_MAX == questions.ASKED_MAX


@pytest.mark.parametrize(
    ("changes", "run"),
    [
        ({}, f"start_time:{int(ENDED_AT_S) - 60}"),
        ({"SLURM_JOB_START_TIME": None}, None),
        ({"SLURM_JOB_START_TIME": "0"}, None),
        ({"SLURM_JOB_SLUID": "../x"}, f"start_time:{int(ENDED_AT_S) - 60}"),
    ],
)
def test_an_incarnation_is_named_where_slurm_tells_it(
    changes: dict[str, str | None], run: str | None
) -> None:
    assert wanted.row(entry(**changes), "8a3f")["run"] == run


def test_bytes_that_are_no_text_do_not_spoil_the_question() -> None:
    end = entry()
    end.environment[b"SLURM_JOB_NODELIST"] = b"n\xff[1-2]"

    assert questions.decode(wanted.question("n3", "c", [wanted.row(end, "8a3f")])).asked


def word(answer: Any) -> Word:
    return wanted.reply({"answers": {"8a3f": answer}}, ["8a3f"]).words["8a3f"]


@pytest.mark.parametrize(
    ("answer", "meant"),
    [
        ({"wanted": "yes"}, Word(YES)),
        ({"wanted": "no"}, Word(NO)),
        ({"wanted": "later"}, Word(LATER)),
        ({"wanted": "yes", "reads_shared": True}, Word(YES, (), True)),
        ({"wanted": "yes", "reads_shared": 1, "new": 2}, Word(YES)),
        ({"wanted": "YES"}, Word(LATER)),
        ({"wanted": True}, Word(LATER)),
        ({"wanted": ["yes"]}, Word(LATER)),
        ({}, Word(LATER)),
        ("yes", Word(LATER)),
        (None, Word(LATER)),
        ([], Word(LATER)),
    ],
)
def test_what_is_no_clear_word_means_later(answer: Any, meant: Word) -> None:
    assert word(answer) == meant


@pytest.mark.parametrize(
    "document", [{}, {"answers": []}, {"answers": None}, {"answers": {"x": 1}}]
)
def test_an_end_that_is_not_answered_for_is_asked_about_later(document: dict[str, Any]) -> None:
    assert wanted.reply(document, ["8a3f"]).words == {"8a3f": Word(LATER)}


@pytest.mark.parametrize(
    "path",
    [
        "step.out",
        "",
        "/home/u/../root/x",
        "/home/u/./x",
        "//home/u/x",
        "/home/u/x/",
        "/home/u/x\0y",
        "/proc/1/environ",
        "/sys/kernel/x",
        "/dev/kmsg",
        "/" + "a" * 5000,
        "/home/\ud800",
        7,
        None,
        ["/home/u/x"],
    ],
)
def test_a_path_that_names_no_log_plainly_is_left_out(path: Any) -> None:
    answer = {"wanted": "yes", "paths": [path, "/home/u/good", "/home/u/good"]}

    assert word(answer).paths == ("/home/u/good",)


def test_paths_are_bounded_and_may_be_no_list_at_all() -> None:
    many = [f"/home/u/{number}" for number in range(1000)]

    assert word({"wanted": "yes", "paths": many}).paths == tuple(many[: wanted.PATHS_MAX])
    assert word({"wanted": "yes", "paths": "/home/u/x"}).paths == ()
    assert word({"wanted": "yes", "paths": {"/home/u/x": 1}}).paths == ()


@pytest.mark.parametrize(
    ("told", "heard"),
    [(30, 30.0), (0.5, 0.5), (-1, None), (True, None), ("30", None), (1e300, None), (None, None)],
)
def test_when_to_ask_again_is_a_number_or_nothing(told: Any, heard: float | None) -> None:
    assert wanted.reply({"ask_again_s": told}, []).ask_again_s == heard


@pytest.mark.parametrize("told", [float("nan"), float("inf")])
def test_when_to_ask_again_is_a_moment(told: float) -> None:
    assert wanted.reply({"ask_again_s": told}, []).ask_again_s is None


@pytest.mark.parametrize(
    ("waited_s", "told_s", "again_s"),
    [
        (15.0, None, 15.0),
        (240.0, None, 240.0),
        (9000.0, None, 600.0),
        (0.0, None, 5.0),
        (-50.0, None, 5.0),
        (9000.0, 30.0, 30.0),
        (15.0, 0.0, 5.0),
        (15.0, 1e9, 3600.0),
    ],
)
def test_the_next_question_is_as_far_away_as_the_daemon_says_or_as_the_end_is_old(
    waited_s: float, told_s: float | None, again_s: float
) -> None:
    assert wanted.again_s(waited_s, told_s) == again_s
