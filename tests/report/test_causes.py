"""The knowledge base: whole, quoted for the shell, and filled with a case's own values."""

from __future__ import annotations

import importlib.resources
import re
import shlex
import tomllib

import pytest

from firstfault.report import causes as knowledge

KNOWN = {
    "job": "4242",
    "host": "n4",
    "node": "n4",
    "rank": "5",
    "pid": "11744",
    "gpu": "0000:3b:00.0",
    "amd": "yes",
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
    "canceller_root": "yes",
    "rdzv_host": "n1",
    "slurm": "yes",
    "pod": "train-worker-1",
    "container_limit": "yes",
    "user_limit": "yes",
    "hung": "yes",
    "advancing": "yes",
    "kept": "srun --label.",
    "since": "1796053000",
    "until": "1796053600",
    "confirmed": "yes",
    "sure": "yes",
}
COMPUTED = {"why", "reason"}
CAUSES = knowledge.causes()
by_cause = pytest.mark.parametrize("text", CAUSES, ids=lambda text: text.id)
PROSE = ("confirm", "do", "admins", "verify", "prevent")
# What a reader would have to replace; a folder of one's own choice (DIR) may be.
BLANK = re.compile(r"\b(?:JOB|JOBID|HOST|NODE|PID|POD|PATH|FILE|FOLDER|PORT|NAME|RANK|UID)\b")


def variants(phrases) -> list[str]:
    return [
        text for phrase in phrases for text in ([phrase] if isinstance(phrase, str) else phrase)
    ]


def placeholders(template: str) -> set[str]:
    return set(re.findall(r"\{\??([a-z_]+)\}", template))


def shared() -> dict:
    text = importlib.resources.files("firstfault").joinpath("report", "knowledge", "shared.toml")
    return tomllib.loads(text.read_text("utf-8"))


def entries() -> dict[str, dict]:
    folder = importlib.resources.files("firstfault").joinpath("report", "knowledge")
    found = {}
    for file in folder.iterdir():
        if file.name.endswith(".toml") and file.name != "shared.toml":
            for area, table in tomllib.loads(file.read_text("utf-8")).items():
                nested = all(isinstance(value, dict) for value in table.values())
                found |= (
                    {f"{area}.{name}": entry for name, entry in table.items()}
                    if nested
                    else {area: table}
                )
    return found


def test_every_cause_is_explained_and_nothing_else_is():
    assert set(entries()) == {text.id for text in CAUSES}


@by_cause
def test_a_cause_says_all_that_its_readers_ask(text: knowledge.CauseText):
    fields = set(entries()[text.id])

    assert fields <= set(knowledge.CauseText.__struct_fields__)
    assert text.domain in ("user", "system", "either")
    assert text.drain in ("yes", "look", "no")
    assert text.name
    assert text.explains
    assert text.everyone.endswith(".")
    assert text.everyone.count(".") == 1
    assert text.confirm
    assert text.why
    assert text.wrong
    assert (text.do and text.verify and text.prevent) or text.id == "none"


@by_cause
def test_a_cause_is_short_enough_to_be_read(text: knowledge.CauseText):
    assert len(text.name) <= 48
    assert len(text.explains) <= 400
    assert len(text.everyone) <= 120
    for field in PROSE:
        assert all(len(phrase) <= 300 for phrase in variants(getattr(text, field))), field


def test_no_node_is_drained_for_what_is_its_owners():
    assert not [text.id for text in CAUSES if text.domain == "user" and text.drain == "yes"]


@by_cause
def test_only_facts_that_exist_are_named(text: knowledge.CauseText):
    phrases = variants(phrase for field in PROSE for phrase in getattr(text, field))
    named = set().union(*map(placeholders, (*phrases, *variants(text.commands))))

    assert named <= {*knowledge.FACTS, "no_case"}


def test_what_the_tests_know_is_what_there_is_to_know():
    assert {*KNOWN, *COMPUTED} == set(knowledge.FACTS)


def test_what_is_shared_is_used():
    texts = str(entries())
    named = shared()

    assert not [each for each in named["phrases"] if f"'@{each}'" not in texts]
    assert not [each for each in named["commands"] if f"'@{each}'" not in texts]
    assert not [each for each in named["references"] if f"'{each}'" not in texts]


def test_references_name_an_address_and_what_was_read_there():
    for name, (title, url) in shared()["references"].items():
        assert url.startswith("https://"), name
        assert len(title) <= 76, name


@by_cause
def test_a_command_never_quotes_a_placeholder_itself(text: knowledge.CauseText):
    for command in variants((*text.commands, shared()["drain"]["command"])):
        words = shlex.split(command)
        in_quotes = re.findall(r"'[^']*'|\"[^\"]*\"|`[^`]*`", command)

        assert words
        assert not set().union(*map(placeholders, in_quotes), set())
        if " ssh " in f" {command}":
            assert placeholders(command) <= {"no_case", "slurm", "amd", *knowledge.SHAPES}


@by_cause
def test_a_command_only_looks(text: knowledge.CauseText):
    changes = re.compile(
        r"\b(?:kill|rm|reboot|reset|shutdown|scancel|update|modify|umount|requeue|delete|dd|mkfs)\b"
    )

    assert not [command for command in variants(text.commands) if changes.search(command)]


@by_cause
def test_with_all_facts_nothing_is_left_out_and_no_placeholder_remains(text: knowledge.CauseText):
    remedy = knowledge.remedy(text.id, KNOWN)
    drained = text.drain == "yes"

    assert len(remedy.do) >= len(text.do) + len(text.admins)
    assert len(remedy.commands) == len(text.commands) + drained
    assert not any("{" in said or said.startswith("@") for said in remedy.do)
    assert not any("{" in said for said in remedy.commands)


@by_cause
def test_what_is_advised_fits_a_message(text: knowledge.CauseText):
    remedy = knowledge.remedy(text.id, {**KNOWN, "host": "n" * 40, "node": "n" * 40})

    assert not [said for said in remedy.do if len(said) > 300 + len(KNOWN["kept"])]
    assert not [command for command in remedy.commands if len(command) > 250]


@by_cause
@pytest.mark.parametrize("facts", [{}, {"slurm": "yes"}, {"job": "7", "host": "n4"}, KNOWN])
def test_what_is_advised_on_a_case_has_no_blanks_to_fill(
    text: knowledge.CauseText, facts: dict[str, str]
):
    remedy = knowledge.remedy(text.id, facts)
    said = [*remedy.do, *remedy.commands, *remedy.verify, *remedy.prevent]
    plain = [re.sub(r"`[^`]*`|SLURM_JOB\w+", "", each) for each in said]

    assert not [each for each in plain if BLANK.search(each)]
    assert not any("None" in each for each in remedy.commands)


@by_cause
def test_administrators_are_told_whether_to_drain(text: knowledge.CauseText):
    said = [each for each in knowledge.remedy(text.id, KNOWN).do if text.why in each]

    assert len(said) == (0 if text.drain == "no" and text.domain == "user" else 1)


def test_a_node_is_drained_by_a_command_that_is_ready():
    drain = knowledge.remedy("gpu.ecc", KNOWN).commands[1]

    assert shlex.split(drain) == [
        "scontrol",
        "update",
        "nodename=n4",
        "state=drain",
        "reason=gpu.ecc, job 4242 (firstfault)",
    ]


@pytest.mark.parametrize("unsure", ["sure", "node", "host"])
def test_no_node_is_drained_that_is_not_surely_the_one(unsure: str):
    facts = {name: value for name, value in KNOWN.items() if name != unsure}
    if unsure == "host":
        del facts["node"]

    commands = knowledge.remedy("gpu.ecc", facts).commands

    assert not any("state=drain" in command for command in commands)


@pytest.mark.parametrize(
    "evil", ["ALL", "all", "n[1-900]", "n1,n2", "n1 n2", "-n", "n1;id", "$(id)"]
)
def test_a_name_that_slurm_reads_as_many_nodes_is_no_node(evil: str):
    remedy = knowledge.remedy("node.kernel", {**KNOWN, "node": evil, "host": evil})

    assert not any(evil in said for said in (*remedy.do, *remedy.commands))


def test_what_is_not_confirmed_says_how_to_be_sure():
    facts = {name: value for name, value in KNOWN.items() if name != "confirmed"}

    assert knowledge.remedy("memory.cgroup-oom", facts).do[-1].startswith("To be sure: The kernel")
    assert not any("To be sure" in said for said in knowledge.remedy("unknown", {}).do)
    assert not any("To be sure" in said for said in knowledge.remedy("gpu.ecc", KNOWN).do)


def test_the_best_variant_is_taken_that_the_facts_allow():
    with_time = knowledge.remedy("memory.cgroup-oom", KNOWN).commands
    without = knowledge.remedy("memory.cgroup-oom", {"job": "1", "host": "n4"}).commands

    assert "ssh n4 journalctl -k --no-pager --since=@1796053000 --until=@1796053600" in with_time
    assert "ssh n4 journalctl -k --no-pager -n 500" in without


@pytest.mark.parametrize("evil", ["x; rm -rf ~", "$(id)", "`id`", "a'b", 'a"b', "a b", "a|b", "*"])
def test_a_value_is_one_word_to_the_shell(evil: str):
    command = knowledge.remedy("storage.corrupt", {"path": evil}).commands[0]

    assert shlex.split(command) == ["ls", "-l", evil]


@pytest.mark.parametrize(
    "evil", ["-oProxyCommand=id", "", "a\nb", "a\x1b[2Jb", "\u202en4", "n\u0664"]
)
def test_a_value_that_could_be_something_else_leaves_its_command_out(evil: str):
    assert knowledge.remedy("gpu.bus-lost", {"host": evil}).commands == ()


def test_only_plain_words_go_where_a_remote_shell_reads_them():
    evil = {"host": "n4", "pid": "1;id", "since": "$(id)", "gpu": "0000:3b:00.0;id"}
    commands = [c for cause_id in ("process.segfault", "gpu.ecc") for c in advice(cause_id, evil)]

    assert commands
    assert not any("id)" in command or ";id" in command for command in commands)


def advice(cause_id: str, facts: dict[str, str]) -> tuple[str, ...]:
    return knowledge.remedy(cause_id, facts).commands


def test_an_unknown_cause_is_a_key_error():
    with pytest.raises(KeyError):
        knowledge.remedy("no.such", {})
