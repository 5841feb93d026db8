"""Names of files as Slurm and the configuration write them, turned into what to look for.

A path is a list of parts, each either a name as it is or an expression that a name matches.
Slurm's patterns: sbatch(1), "filename pattern"; src/slurmd/common/fname.c in 22.05.
"""

import fnmatch
import re
from typing import Dict, List, Match, NamedTuple, Optional, Pattern, Union

# What a value that the node cannot know may look like; never a slash.
_UNKNOWN = {
    "A": "[0-9]+",
    "a": "[0-9]+",
    "b": "[0-9]+",
    "s": "[A-Za-z0-9]+",
    "t": "[0-9]+",
    "n": "[0-9]+",
    "x": "[^/]*",
    "N": "[^/]+",
    "u": "[^/]+",
}
_NUMERIC = "AabjJnst"

Part = Union[str, Pattern[str]]


class Path(NamedTuple):
    """``parts`` from the root on; ``exact`` where no part is an expression."""

    parts: List[Part]

    @property
    def exact(self) -> bool:
        """Whether it names one file."""
        return all(isinstance(part, str) for part in self.parts)


def slurm_output(pattern: str, work_dir: Optional[str], known: Dict[str, str]) -> Optional[Path]:
    """The file that sbatch's ``-o`` or ``-e`` pattern names, None where it cannot be told.

    ``known`` holds the values of the specifiers (without ``%``) that the node knows. A relative
    pattern is in ``work_dir``. A backslash anywhere turns expansion off and is itself dropped.
    """
    parts: List[Part] = []
    if not pattern.startswith("/"):
        if not work_dir or not work_dir.startswith("/"):
            return None
        parts.extend(name for name in work_dir.split("/") if name)
    literal = "\\" in pattern
    for name in pattern.replace("\\", "").split("/"):
        if name:
            parts.append(name if literal else _expanded(name, known))
    return Path(parts)


def site_glob(pattern: str, known: Dict[str, str]) -> Path:
    """The folders that a glob of the configuration names; % specifiers as in ``known``."""
    parts: List[Part] = []
    for name in pattern.split("/"):
        if not name:
            continue
        text = re.sub(
            "%([A-Za-z%])",
            lambda m: "%" if m.group(1) == "%" else _glob_escape(known.get(m.group(1), m.group())),
            name,
        )
        if re.search(r"[*?\[]", text):
            parts.append(re.compile(fnmatch.translate(text)))
        else:
            parts.append(text)
    return Path(parts)


def step_log(pattern: str, known: Dict[str, str]) -> Optional[Path]:
    """The files that a pattern of ``srun -o`` with globs in it names, None where it names none.

    A specifier of which ``known`` has no value stands for any; ``%J`` is the job or one of its
    steps. An empty value (``%w``, ``%h``: the work folder, the home) names nothing.
    """
    if any(
        letter in known and not known[letter] for letter in re.findall("%[0-9]*([A-Za-z])", pattern)
    ):
        return None

    def value(match: Match[str]) -> str:
        width, letter = match.groups()
        if letter == "%":
            return "%"
        if letter == "J":
            return _padded(known["j"], width) + "*"
        if letter not in known:
            return "*" if letter in _UNKNOWN or letter in _NUMERIC else match.group()
        text = known[letter]
        return (
            text
            if letter in "wh"
            else _glob_escape(_padded(text, width) if letter in _NUMERIC else text)
        )

    # Folders are taken as they are called, whatever that looks like.
    head = re.match("%([wh])(?=/)", pattern)
    parts: List[Part] = []
    if head is not None:
        parts.extend(name for name in known[head.group(1)].split("/") if name)
        pattern = pattern[2:]
    if not pattern.startswith("/"):
        return None
    for name in re.sub("%([0-9]*)([A-Za-z%])", value, pattern).split("/"):
        if name:
            parts.append(
                re.compile(fnmatch.translate(name)) if re.search(r"[*?\[]", name) else name
            )
    return Path(parts)


def first_nodes(node_list: Optional[str], count: int) -> Optional[List[str]]:
    """The first ``count`` nodes of a list (fewer where it has no more), None where it cannot be
    told."""
    found: List[str] = []
    for text in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", node_list or ""):
        match = re.match(r"([A-Za-z0-9._-]+)(?:\[([0-9,-]{1,100000})\]([A-Za-z0-9._-]*))?\Z", text)
        if match is None:
            return None
        before, numbers, after = match.groups()
        if numbers is None:
            found.append(before)
        for part in (numbers or "").split(",") if numbers else ():
            low, _, high = part.partition("-")
            if not low.isdigit() or not (high or low).isdigit():
                return None
            last = min(int(high or low), int(low) + count)
            found.extend(
                f"{before}{number:0{len(low)}d}{after}" for number in range(int(low), last + 1)
            )
        if len(found) >= count:
            break
    return found[:count] or None


def first_node(node_list: Optional[str]) -> Optional[str]:
    """The first node of a list like ``n[01-04,7],m3``, None where there is none."""
    if not node_list:
        return None
    match = re.match(r"([A-Za-z0-9._-]+)(?:\[([0-9]+)[^\]]*\]([A-Za-z0-9._-]*))?(?:,|$)", node_list)
    if match is None:
        return None
    return match.group(1) + (match.group(2) or "") + (match.group(3) or "")


def _padded(value: str, width: str) -> str:
    return value.zfill(min(int(width), 10)) if width and value.isdigit() else value


def _glob_escape(text: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", text)


def _expanded(name: str, known: Dict[str, str]) -> Part:
    exact = []
    expression = []
    is_exact = True
    at = 0
    for match in re.finditer(r"%([0-9]*)([A-Za-z%])", name):
        before = name[at : match.start()]
        exact.append(before)
        expression.append(re.escape(before))
        at = match.end()
        width, letter = match.groups()
        value = "%" if letter == "%" else known.get(letter)
        if value is not None:
            if letter in _NUMERIC:
                value = _padded(value, width)
            exact.append(value)
            expression.append(re.escape(value))
        elif letter in _UNKNOWN:
            is_exact = False
            expression.append(_UNKNOWN[letter])
        else:
            exact.append(match.group())
            expression.append(re.escape(match.group()))
    exact.append(name[at:])
    expression.append(re.escape(name[at:]))
    if is_exact:
        return "".join(exact)
    return re.compile("".join(expression) + r"\Z", re.DOTALL)
