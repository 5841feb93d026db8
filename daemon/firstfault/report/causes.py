"""What is known of each cause: its meaning (causes.toml) and what to do about it (remedies.toml)."""

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
    "rank": "the global rank that failed first",
    "pid": "its process id",
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
    "slurm": "known where the job ran under Slurm",
    "pod": "the pod that the cause is in, under Kubernetes",
    "container_limit": "known where the limit that was full is a container's or a pod's",
    "user_limit": "known where the limit that was full is that of all the user's processes",
    "kept": "how the launcher that ran the job keeps each rank's words",
    "until": "end of the time to look at, whole seconds of UNIX time",
}
"""The facts that remedies may name: what `remedy` takes."""

NUMBERS = frozenset({"rank", "pid", "line", "port", "canceller_uid", "since", "until"})
"""The facts that are whole numbers: only these may go through ssh, where two shells read them."""

# "{?name}" says nothing: what it begins is for a case in which that fact is known.
_PLACEHOLDER = re.compile(r"\{(\??)([a-z_]+)\}")

# A phrase, or variants of it of which the first with all its facts known is taken.
Phrase = str | tuple[str, ...]


class CauseText(msgspec.Struct, frozen=True):
    """One cause: ``domain`` is "user", "system" or "either"; phrases may hold {placeholders}."""

    id: str
    domain: str
    means: str
    confirm: tuple[Phrase, ...]
    do: tuple[Phrase, ...]
    commands: tuple[Phrase, ...]
    verify: tuple[Phrase, ...]
    prevent: tuple[Phrase, ...]


def causes() -> tuple[CauseText, ...]:
    """Every cause, in the order of causes.toml."""
    return tuple(_catalogue().values())


def cause(cause_id: str) -> CauseText:
    """The cause with this id. Raises KeyError for another."""
    return _catalogue()[cause_id]


def remedy(cause_id: str, facts: Mapping[str, str]) -> Remedy:
    """What to do about a cause, with the ``facts`` (names as in `FACTS`) filled in.

    What needs a fact that is absent is left out. In commands each value is quoted for the shell;
    a value that could be taken for an option, that is not printable, or that is no number where
    a number belongs (`NUMBERS`), counts as absent there. Raises KeyError for
    an unknown cause.
    """
    text = cause(cause_id)
    return Remedy(
        do=_filled(text.do, facts, _as_is),
        commands=_filled(text.commands, facts, _quoted),
        verify=_filled(text.verify, facts, _as_is),
        prevent=_filled(text.prevent, facts, _as_is),
    )


def generic(phrases: Sequence[Phrase]) -> tuple[str, ...]:
    """The phrases with placeholders as names to be replaced (JOB, HOST): for a reader with no case.

    Of variants the first is taken.
    """
    firsts = [phrase if isinstance(phrase, str) else phrase[0] for phrase in phrases]
    return tuple(
        _PLACEHOLDER.sub(lambda found: "" if found[1] else found[2].upper(), phrase)
        for phrase in firsts
    )


def _filled(
    phrases: Sequence[Phrase], facts: Mapping[str, str], form: Callable[[str, str], str | None]
) -> tuple[str, ...]:
    known = {name: form(name, value) for name, value in facts.items()}
    said = (_first_known(phrase, known) for phrase in phrases)
    return tuple(phrase for phrase in said if phrase is not None)


def _first_known(phrase: Phrase, known: Mapping[str, str | None]) -> str | None:
    for variant in (phrase,) if isinstance(phrase, str) else phrase:
        if all(known.get(name) is not None for _, name in _PLACEHOLDER.findall(variant)):
            return _PLACEHOLDER.sub(lambda found: "" if found[1] else str(known[found[2]]), variant)
    return None


def _as_is(_name: str, value: str) -> str | None:
    return value or None


def _quoted(name: str, value: str) -> str | None:
    if not value or value.startswith("-") or not value.isprintable():
        return None
    if name in NUMBERS and not (value.isascii() and value.isdigit()):
        return None
    return shlex.quote(value)


@functools.cache
def _catalogue() -> dict[str, CauseText]:
    package = importlib.resources.files("firstfault")
    means = _flat(tomllib.loads(package.joinpath("causes.toml").read_text("utf-8")))
    remedies = package.joinpath("report", "remedies.toml").read_text("utf-8")
    advice = _flat(tomllib.loads(remedies))
    return {
        name: msgspec.convert({"id": name, **entry, **advice[name]}, CauseText)
        for name, entry in means.items()
    }


def _flat(tables: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Tables by their dotted name: a table is a cause when it holds anything but tables."""
    found: dict[str, dict[str, Any]] = {}
    for name, table in tables.items():
        if all(isinstance(value, dict) for value in table.values()):
            found |= {f"{name}.{key}": value for key, value in table.items()}
        else:
            found[name] = table
    return found
