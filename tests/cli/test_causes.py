"""``firstfault causes``: the knowledge base in the terminal, as data and as the documentation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from firstfault import cli_causes
from firstfault.report import causes as knowledge
from firstfault.report import handbook

by_cause = pytest.mark.parametrize("text", knowledge.causes(), ids=lambda text: text.id)


def run(*arguments: str):
    return CliRunner().invoke(cli_causes.causes, list(arguments))


def words(text: str) -> str:
    return " ".join(text.split())


def test_the_list_names_every_cause_once_by_who_can_act():
    result = run()
    groups = result.output.split("\n\n")
    listed = [[row.split()[0] for row in group.splitlines()[1:]] for group in groups]

    assert result.exit_code == 0
    assert len(groups) == 3
    assert sorted(each for group in listed for each in group) == sorted(
        text.id for text in knowledge.causes()
    )
    assert all(
        len({knowledge.cause(cause_id).domain for cause_id in group}) == 1 for group in listed
    )


def test_the_list_fits_a_terminal_of_80_columns():
    assert max(map(len, run().output.splitlines())) <= 80


@by_cause
def test_an_explanation_says_all_that_is_known(text: knowledge.CauseText):
    said = words(handbook.entry(text, 80)).replace(" \\ ", " ")

    for phrase in (
        text.explains,
        text.everyone,
        text.why,
        *knowledge.general(text.confirm),
        *knowledge.general(text.do),
        *knowledge.general(text.admins),
        *knowledge.commands_in_general(text.commands),
        *knowledge.general(text.verify),
        *knowledge.general(text.prevent),
        *text.wrong,
        *(see.title for see in text.see),
    ):
        assert words(phrase) in said


@by_cause
def test_an_explanation_fits_80_columns_but_for_words_that_must_stay_whole(
    text: knowledge.CauseText,
):
    wide = [row for row in handbook.entry(text, 80).splitlines() if len(row) > 80]

    assert all(len(row.rstrip(" \\").split()) == 1 for row in wide)


@by_cause
def test_nothing_of_the_notation_is_left_for_readers(text: knowledge.CauseText):
    said = handbook.entry(text, 80)

    assert "{" not in said
    assert "}" not in said
    assert " @" not in said


def test_a_cause_is_explained_with_names_in_place_of_facts():
    result = run("memory.cgroup-oom")

    assert result.exit_code == 0
    assert "How to confirm it" in result.output
    assert "sacct -j JOB " in result.output


def test_whoever_is_on_call_reads_whether_to_drain_and_how():
    output = run("gpu.bus-lost").output

    assert "Drain the node? Yes" in output
    assert "scontrol update nodename=NODE state=drain reason=gpu.bus-lost" in output
    assert "scontrol update" not in run("python.exception").output


def test_json_holds_all_causes_or_one():
    everything = json.loads(run("--format", "json").output)
    one = json.loads(run("gpu.ecc", "--format", "json").output)

    assert [each["id"] for each in everything] == [text.id for text in knowledge.causes()]
    assert one in everything
    assert one["administrators"]["drain"] == "yes"
    assert all(each["references"] for each in everything if each["domain"] == "system")


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ("memory.cgrop-oom", "memory.cgroup-oom"),
        ("oom", "memory.gpu-oom"),
        ("segfault", "process.segfault"),
        ("xyzzy", "firstfault causes"),
    ],
)
def test_an_id_that_does_not_exist_is_bad_usage_and_near_ones_are_named(given: str, near: str):
    result = run(given)

    assert result.exit_code == 2
    assert near in result.output


def test_markdown_is_of_all_causes():
    result = run("gpu.ecc", "--format", "markdown")

    assert result.exit_code == 2
    assert "leave the ID out" in result.output


def test_an_id_cannot_drive_the_terminal():
    assert "\x1b" not in run("\x1b[2J").output


def test_the_documentation_is_what_the_command_prints():
    documented = Path(__file__).parents[2].joinpath("docs", "causes.md").read_text("utf-8")

    assert documented == run("--format", "markdown").output, (
        "run: firstfault causes --format markdown > docs/causes.md"
    )
