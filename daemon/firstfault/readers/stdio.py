"""Where a job's and its steps' output went, from the patterns that Slurm's accounting keeps.

The patterns are those of sbatch(1) and srun(1); read in Slurm's source (slurmd/common/fname.c of
22.05, common/print_fields.c of 24.11). `sacct --expand-patterns` is of no use for a step: it puts 0
for each of %t, %n and %N, of which every task or node has its own. These stay as they are here.
"""

from __future__ import annotations

import posixpath
import re

import msgspec

from firstfault.model.slurm import JobFacts

_FIELD = re.compile(r"%(?:(?P<percent>%)|(?P<width>[0-9]{0,9})(?P<letter>[A-Za-z]))")
_PER_TASK = "tnN"
_WIDEST = 10
_NOWHERE = ("none", "/dev/null")
# Of srun's options, those of one letter that take a word, and long ones that take none.
_TAKES_A_WORD = frozenset("ABCcDdeGiJLMmNnopPqrStTUWwx")
_LONG_ALONE = frozenset(
    [
        "contiguous",
        "disable-status",
        "exact",
        "exclusive",
        "hold",
        "immediate",
        "interactive",
        "kill-on-bad-exit",
        "label",
        "multi-prog",
        "no-allocate",
        "no-kill",
        "oom-kill-step",
        "overcommit",
        "overlap",
        "oversubscribe",
        "preserve-env",
        "pty",
        "quiet",
        "quit-on-interrupt",
        "spread-job",
        "unbuffered",
        "use-min-nodes",
        "verbose",
    ]
)


def asked_for(submit_line: str) -> tuple[str | None, str | None]:
    """The patterns after -o and -e in the command line of an srun, None for what it does not name.

    The line is the words with blanks between them: what stood in quotes cannot be told any more.
    """
    words = submit_line.split()
    if not words or posixpath.basename(words[0]) != "srun":
        return None, None
    found: dict[str, str] = {}
    index = 1
    while index < len(words) and words[index].startswith("-") and words[index] != "--":
        name, value, used = _option(words, index)
        if value:
            found[name] = value
        index += used
    return found.get("output"), found.get("error")


def with_paths(facts: JobFacts) -> JobFacts:
    """``facts`` with its patterns as absolute paths; what goes nowhere is None."""

    def path(pattern: str | None, step: str | None) -> str | None:
        return None if pattern is None else _path(pattern, facts, step)

    steps = tuple(
        msgspec.structs.replace(
            step, stdout=path(step.stdout, step.id), stderr=path(step.stderr, step.id)
        )
        for step in facts.steps
    )
    return msgspec.structs.replace(
        facts, stdout=path(facts.stdout, None), stderr=path(facts.stderr, None), steps=steps
    )


def _option(words: list[str], index: int) -> tuple[str, str | None, int]:
    """An option's long name, its value, and how many words it takes."""
    word = words[index]
    following = words[index + 1] if index + 1 < len(words) else None
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        if equals or name in _LONG_ALONE:
            return name, value or None, 1
        return name, following, 2
    name = {"o": "output", "e": "error"}.get(word[1:2], word[1:2])
    if word[2:]:
        return name, word[2:], 1
    return (name, following, 2) if word[1:] in _TAKES_A_WORD else (name, None, 1)


def _path(pattern: str, facts: JobFacts, step: str | None) -> str | None:
    if pattern in _NOWHERE or pattern.isdigit():
        return None  # digits: that task's output alone goes to srun's own
    if "\\" in pattern:
        return None  # it switches patterns off, and means something else to each version
    expanded = _FIELD.sub(lambda match: _value(match, facts, step), pattern)
    path = posixpath.join(facts.work_dir or "", expanded)
    return path if path.startswith("/") else None


def _value(match: re.Match[str], facts: JobFacts, step: str | None) -> str:
    if match["percent"]:
        return "%"
    letter, raw = match["letter"], facts.raw_id or facts.id
    array, _, task = facts.id.partition("_")
    numbers: dict[str, str | None] = {"A": array if task else raw, "j": raw, "s": step}
    if task.isdigit():
        numbers |= {"a": task, "b": str(int(task) % 10)}
    words: dict[str, str | None] = {"J": raw if step in (None, "batch") else f"{raw}.{step}"}
    words |= {"u": facts.user, "x": facts.name}
    known = {**numbers, **words}.get(letter)
    if known is None or letter in _PER_TASK:
        return match[0]
    width = min(int(match["width"] or 0), _WIDEST) if known.isdigit() else 0
    return known.zfill(width)
