import importlib.resources
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from firstfault import cli_causes
from firstfault.report import causes as knowledge

FIRST = [
    "memory.cgroup-oom",
    "memory.host-oom",
    "process.segfault",
    "process.abort",
    "process.bus-error",
    "process.killed",
    "python.exception",
    "python.import",
    "slurm.time-limit",
    "slurm.cancelled",
    "slurm.node-fail",
    "unknown",
    "none",
]
KNOWN = {
    "job": "4242",
    "host": "n4",
    "rank": "5",
    "pid": "11744",
    "file": "/home/alice/my train.py",
    "line": "44",
    "path": "/scratch/run 7/step_400.pt",
    "folder": "/scratch/run 7",
    "port": "29500",
    "module": "apex",
    "script": "job.sh",
    "partition": "gpu",
    "nodes": "n[1-4]",
    "canceller_uid": "1002",
    "rdzv_host": "n1",
    "slurm": "yes",
    "canceller_root": "yes",
    "pod": "train-worker-1",
    "container_limit": "yes",
    "user_limit": "yes",
    "kept": "srun --label.",
    "since": "1796053000",
    "until": "1796053600",
}


def variants(phrases) -> list[str]:
    return [
        text for phrase in phrases for text in ([phrase] if isinstance(phrase, str) else phrase)
    ]


def placeholders(template: str) -> set[str]:
    return set(re.findall(r"\{\??([a-z_]+)\}", template))


def test_every_cause_has_its_remedy_and_every_remedy_its_cause():
    read = importlib.resources.files("firstfault").joinpath
    remedies = tomllib.loads(read("report", "remedies.toml").read_text("utf-8"))
    named = [
        f"{area}.{name}" if isinstance(entry, dict) else area
        for area, table in remedies.items()
        for name, entry in table.items()
    ]

    assert list(dict.fromkeys(named)) == [text.id for text in knowledge.causes()]


@pytest.mark.parametrize("cause_id", FIRST)
def test_a_cause_that_is_judged_says_how_to_confirm_and_what_to_do(cause_id: str):
    text = knowledge.cause(cause_id)

    assert text.means
    assert text.domain in ("user", "system", "either")
    assert text.confirm
    assert text.do or cause_id == "none"


@pytest.mark.parametrize("text", knowledge.causes(), ids=lambda text: text.id)
def test_a_remedy_names_only_facts_that_exist(text: knowledge.CauseText):
    phrases = variants((*text.do, *text.commands, *text.verify, *text.prevent, *text.confirm))
    named = set().union(*map(placeholders, phrases))

    assert named <= set(knowledge.FACTS)
    assert set(KNOWN) == set(knowledge.FACTS)


@pytest.mark.parametrize("text", knowledge.causes(), ids=lambda text: text.id)
def test_a_command_never_quotes_a_placeholder_itself(text: knowledge.CauseText):
    for command in variants(text.commands):
        words = shlex.split(command)
        in_quotes = re.findall(r"'[^']*'|\"[^\"]*\"|`[^`]*`", command)

        assert words
        assert not set().union(*map(placeholders, in_quotes), set())
        if words[0] == "ssh":
            assert placeholders(command) <= {"host", "slurm", *knowledge.NUMBERS}


@pytest.mark.parametrize("text", knowledge.causes(), ids=lambda text: text.id)
def test_with_all_facts_nothing_is_left_out_and_no_placeholder_remains(text: knowledge.CauseText):
    remedy = knowledge.remedy(text.id, KNOWN)

    assert len(remedy.do) == len(text.do)
    assert len(remedy.commands) == len(text.commands)
    assert not any(placeholders(said) for said in (*remedy.do, *remedy.commands))


@pytest.mark.parametrize("text", knowledge.causes(), ids=lambda text: text.id)
def test_without_facts_what_needs_one_is_left_out(text: knowledge.CauseText):
    remedy = knowledge.remedy(text.id, {})

    assert not any(placeholders(said) for said in (*remedy.do, *remedy.commands))
    assert not any("None" in said for said in remedy.commands)


def test_the_best_variant_is_taken_that_the_facts_allow():
    with_time = knowledge.remedy("memory.cgroup-oom", KNOWN).commands
    without = knowledge.remedy("memory.cgroup-oom", {"job": "1", "host": "n4"}).commands

    assert "ssh n4 journalctl -k --no-pager --since=@1796053000 --until=@1796053600" in with_time
    assert "ssh n4 journalctl -k --no-pager -n 500" in without


@pytest.mark.parametrize("evil", ["x; rm -rf ~", "$(id)", "`id`", "a'b", 'a"b', "a b", "a|b", "*"])
def test_a_value_is_one_word_to_the_shell(evil: str):
    command = knowledge.remedy("storage.corrupt", {"path": evil}).commands[0]

    assert shlex.split(command) == ["ls", "-l", evil]


@pytest.mark.parametrize("evil", ["-oProxyCommand=id", "", "a\nb", "a\x1b[2Jb", "\u202en4"])
def test_a_value_that_could_be_something_else_leaves_its_command_out(evil: str):
    assert knowledge.remedy("gpu.bus-lost", {"host": evil}).commands == ()


def test_only_digits_go_where_a_remote_shell_reads_them():
    said = knowledge.remedy("process.segfault", {"host": "n4", "pid": "1;id", "since": "$(id)"})

    assert not any("id)" in command or ";id" in command for command in said.commands)


def test_an_unknown_cause_is_a_key_error():
    with pytest.raises(KeyError):
        knowledge.remedy("no.such", {})


def run(*arguments: str):
    return CliRunner().invoke(cli_causes.causes, list(arguments))


def test_the_list_names_every_cause_in_one_line():
    lines = run().output.splitlines()

    assert [line.split()[0] for line in lines] == [text.id for text in knowledge.causes()]
    assert all(line.split(maxsplit=1)[1] for line in lines)


def test_the_list_is_cut_to_a_terminal():
    assert max(map(len, cli_causes.listing(80).splitlines())) == 80


@pytest.mark.parametrize("text", knowledge.causes(), ids=lambda text: text.id)
def test_an_explanation_says_all_that_is_known(text: knowledge.CauseText):
    said = " ".join(cli_causes.explanation(text, 80).split())

    for phrase in (text.means, *knowledge.generic(text.confirm), *knowledge.generic(text.commands)):
        assert " ".join(phrase.split()) in said


def test_a_cause_is_explained_with_names_in_place_of_facts():
    result = run("memory.cgroup-oom")

    assert result.exit_code == 0
    assert "How to confirm it" in result.output
    assert "sacct -j JOB " in result.output


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


def test_an_id_cannot_drive_the_terminal():
    assert "\x1b" not in run("\x1b[2J").output


def test_the_documentation_lists_every_cause_as_it_is():
    documented = Path(__file__).parents[2].joinpath("docs", "causes.md").read_text("utf-8")
    rows = [line for line in documented.splitlines() if line.startswith("| `")]

    assert rows == [
        f"| `{text.id}` | {text.domain} | {text.means} |" for text in knowledge.causes()
    ]
