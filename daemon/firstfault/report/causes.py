"""The knowledge base: what each cause means and what to do about it (causes.toml, knowledge/)."""

from __future__ import annotations

import functools
import importlib.resources
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from firstfault.model.verdict import Remedy

FACTS = {
    "job": "the job id",
    "host": "the host that the cause is on",
    "node": "that host by Slurm's name for it",
    "rank": "the global rank that failed first",
    "pid": "its process id",
    "gpu": "the PCI address of the NVIDIA GPU that failed",
    "amd": "known where the GPUs are AMD's",
    "file": "the program's own file where the exception was raised",
    "line": "the line in it",
    "path": "the file or folder that the exception's message names",
    "folder": "the folder that holds it",
    "port": "the port that was taken",
    "module": "the Python module that could not be imported",
    "script": "the job script",
    "partition": "the job's partition",
    "nodes": "the job's node list",
    "canceller_uid": "the user id of who cancelled the job",
    "canceller_root": "known where that was root",
    "rdzv_host": "the host of the rendezvous",
    "since": "start of the time to look at, whole seconds of UNIX time",
    "until": "end of the time to look at, whole seconds of UNIX time",
    "slurm": "known where the job ran under Slurm",
    "pod": "the pod that the cause is in, under Kubernetes",
    "container_limit": "known where the limit that was full is a container's or a pod's",
    "hung": "known where the job had hung when Slurm ended it",
    "advancing": "known where its steps were counted to the end",
    "user_limit": "known where the limit that was full is that of all the user's processes",
    "kept": "how the launcher that ran the job keeps each rank's words",
    "confirmed": "known where the cause is confirmed",
    "sure": "known where the cause is confirmed, and on one host of the job alone",
    "why": "the cause's own sentence on draining (filled in by `remedy`)",
    "reason": "the cause and the job, for Slurm's field of that name (filled in by `remedy`)",
}
"""The facts that the knowledge base may name: what `remedy` takes."""

ADMINISTRATORS = "Administrators: "
"""How a phrase of `Remedy.do` begins that is not the owner's to do."""

_HOST = re.compile(r"(?!all$)[a-z0-9][a-z0-9_.-]{0,252}", re.IGNORECASE | re.ASCII)
_NUMBER = re.compile(r"\d{1,20}", re.ASCII)
SHAPES = {
    # Slurm reads brackets, commas and ALL in a node's name as many nodes.
    "host": _HOST,
    "node": _HOST,
    "job": re.compile(r"\w[\w.+-]{0,99}", re.ASCII),
    "gpu": re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE),
    **dict.fromkeys(("rank", "pid", "line", "port", "canceller_uid", "since", "until"), _NUMBER),
}
"""How a fact must look to be believed. Only these go through ssh, where two shells read them."""

# "{?name}" says nothing: what it begins is for a case in which that fact is known.
_PLACEHOLDER = re.compile(r"\{(\??)([a-z_]+)\}")
_NO_CASE = "{?no_case}"

# A phrase, or variants of it of which the first with all its facts known is taken.
Phrase = str | tuple[str, ...]


class Reference(msgspec.Struct, frozen=True):
    """A text elsewhere: title with version and section, and address."""

    title: str
    url: str


class CauseText(msgspec.Struct, frozen=True):
    """What is known of one cause; phrases and commands may hold {placeholders} (`FACTS`).

    ``domain`` is "user", "system" or "either". ``means`` is the definition, ``name`` a title of at
    most 48 characters, ``explains`` two or three sentences, ``everyone`` one for who asks in
    passing. ``confirm`` and ``commands`` are how to be sure on a given job, ``do`` is for the owner
    with the cheapest first, ``admins`` for the administrators, ``drain`` ("yes", "look" or "no")
    and ``why`` for who is on call. ``wrong`` is what would prove the reading wrong.
    """

    id: str
    domain: str
    means: str
    name: str
    explains: str
    everyone: str
    confirm: tuple[Phrase, ...]
    do: tuple[Phrase, ...]
    drain: str
    why: str
    wrong: tuple[str, ...]
    verify: tuple[Phrase, ...]
    prevent: tuple[Phrase, ...]
    commands: tuple[Phrase, ...] = ()
    admins: tuple[Phrase, ...] = ()
    see: tuple[Reference, ...] = ()


class _Shared(msgspec.Struct, frozen=True):
    """What several causes say alike."""

    phrases: dict[str, Phrase]
    commands: dict[str, Phrase]
    drain: dict[str, Phrase]
    references: dict[str, tuple[str, str]]


def causes() -> tuple[CauseText, ...]:
    """Every cause, in the order of causes.toml."""
    return tuple(_catalogue().values())


def cause(cause_id: str) -> CauseText:
    """The cause with this id. Raises KeyError for another."""
    return _catalogue()[cause_id]


def remedy(cause_id: str, facts: Mapping[str, str]) -> Remedy:
    """What to do about a cause, with the ``facts`` (names as in `FACTS`) filled in.

    What needs a fact that is absent is left out. A value that has not its fact's shape (`SHAPES`)
    counts as absent. In commands each value is quoted for the shell; one that could be taken for
    an option or is not printable counts as absent there. The one command that changes anything,
    Slurm's drain, is there only where the cause calls for it and is surely on that one node.
    Raises KeyError for an unknown cause.
    """
    text = cause(cause_id)
    job = f", job {facts['job']}" if facts.get("job") else ""
    known = {**facts, "why": text.why, "reason": f"{text.id}{job} (firstfault)"}
    return Remedy(
        do=_filled((*text.do, *_of_administrators(text)), known, _as_is) + _to_be_sure(text, known),
        commands=_filled(_commands(text), known, _quoted),
        verify=_filled(text.verify, known, _as_is),
        prevent=_filled(text.prevent, known, _as_is),
    )


def drain(text: CauseText) -> tuple[str, tuple[str, ...]]:
    """Whether to drain the node, and how: for a reader with no case. The command may be none."""
    said = general([_shared().drain[text.drain]])[0].replace("WHY", text.why)
    commands = () if text.drain == "no" else commands_in_general([_shared().drain["command"]])
    return said, tuple(each.replace("REASON", shlex.quote(text.id)) for each in commands)


def general(phrases: Sequence[Phrase]) -> tuple[str, ...]:
    """The phrases for a reader with no case: facts as names (JOB, HOST) to be replaced.

    Of variants the one that is meant for that is taken, else the last, which needs least.
    """
    return tuple(_named(_for_no_case(phrase)) for phrase in phrases)


def commands_in_general(commands: Sequence[Phrase]) -> tuple[str, ...]:
    """The same of commands; of variants that are not meant for it the first, which says most."""
    return tuple(
        _named(command if isinstance(command, str) else _fullest(command)) for command in commands
    )


def _fullest(variants: tuple[str, ...]) -> str:
    for_none = [each for each in variants if each.startswith(_NO_CASE)]
    # Of two makers of cards the one that most have.
    common = [each for each in variants if not each.startswith("{?amd}")]
    return (*for_none, *common)[0]


def _for_no_case(phrase: Phrase) -> str:
    if isinstance(phrase, str):
        return phrase
    return next((each for each in phrase if each.startswith(_NO_CASE)), phrase[-1])


def _named(text: str) -> str:
    return _PLACEHOLDER.sub(lambda found: "" if found[1] else found[2].upper(), text)


# Owners of what is theirs alone need not read that no node is to be drained.
def _of_administrators(text: CauseText) -> tuple[Phrase, ...]:
    if text.drain == "no" and text.domain == "user":
        return tuple(map(_addressed, text.admins))
    return (_shared().drain[text.drain], *map(_addressed, text.admins))


def _addressed(phrase: Phrase) -> Phrase:
    if isinstance(phrase, str):
        return f"{ADMINISTRATORS}{phrase[0].lower()}{phrase[1:]}"
    return tuple(f"{ADMINISTRATORS}{each[0].lower()}{each[1:]}" for each in phrase)


# After the first look: a message shows but few.
def _commands(text: CauseText) -> tuple[Phrase, ...]:
    if text.drain != "yes":
        return text.commands
    return (*text.commands[:1], _shared().drain["command"], *text.commands[1:])


def _to_be_sure(text: CauseText, known: Mapping[str, str]) -> tuple[str, ...]:
    if "confirmed" in known or text.id in ("none", "unknown"):
        return ()
    return tuple(f"To be sure: {said}" for said in _filled(text.confirm[:1], known, _as_is))


def _filled(
    phrases: Sequence[Phrase], facts: Mapping[str, str], form: Callable[[str], str | None]
) -> tuple[str, ...]:
    believed = {name: value for name, value in facts.items() if _is_shaped(name, value)}
    known = {name: form(value) for name, value in believed.items()}
    said = (_first_known(phrase, known) for phrase in phrases)
    return tuple(phrase for phrase in said if phrase is not None)


def _first_known(phrase: Phrase, known: Mapping[str, str | None]) -> str | None:
    for variant in (phrase,) if isinstance(phrase, str) else phrase:
        if all(known.get(name) is not None for _, name in _PLACEHOLDER.findall(variant)):
            return _PLACEHOLDER.sub(lambda found: "" if found[1] else str(known[found[2]]), variant)
    return None


def _is_shaped(name: str, value: str) -> bool:
    shape = SHAPES.get(name)
    return bool(value) and (shape is None or shape.fullmatch(value) is not None)


def _as_is(value: str) -> str | None:
    return value


def _quoted(value: str) -> str | None:
    return None if value.startswith("-") or not value.isprintable() else shlex.quote(value)


@functools.cache
def _catalogue() -> dict[str, CauseText]:
    package = importlib.resources.files("firstfault")
    meanings = _flat(tomllib.loads(package.joinpath("causes.toml").read_text("utf-8")))
    advice: dict[str, dict[str, Any]] = {}
    for file in package.joinpath("report", "knowledge").iterdir():
        if file.name.endswith(".toml") and file.name != "shared.toml":
            advice |= _flat(tomllib.loads(file.read_text("utf-8")))
    return {
        name: msgspec.convert({"id": name, **entry, **_whole(advice[name])}, CauseText)
        for name, entry in meanings.items()
    }


@functools.cache
def _shared() -> _Shared:
    package = importlib.resources.files("firstfault")
    text = package.joinpath("report", "knowledge", "shared.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), _Shared)


# The entry with "@name" replaced by what it stands for.
def _whole(entry: Mapping[str, Any]) -> dict[str, Any]:
    shared = _shared()
    found = dict(entry)
    found["see"] = [Reference(*shared.references[name]) for name in entry.get("see", ())]
    for field, texts in (
        ("commands", shared.commands),
        *((name, shared.phrases) for name in ("do", "admins", "verify", "prevent")),
    ):
        found[field] = [_meant(phrase, texts) for phrase in entry.get(field, ())]
    return found


def _meant(phrase: Any, texts: Mapping[str, Phrase]) -> Any:
    if isinstance(phrase, str):
        return texts[phrase[1:]] if phrase.startswith("@") else phrase
    # A variant that stands for others gives way to all of them.
    variants: list[str] = []
    for each in phrase:
        meant = _meant(each, texts)
        variants += [meant] if isinstance(meant, str) else meant
    return variants


def _flat(tables: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Tables by their dotted name: a table is a cause when it holds anything but tables."""
    found: dict[str, dict[str, Any]] = {}
    for name, table in tables.items():
        if all(isinstance(value, dict) for value in table.values()):
            found |= {f"{name}.{key}": value for key, value in table.items()}
        else:
            found[name] = table
    return found
