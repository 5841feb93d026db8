"""Names of files as Slurm and the configuration write them, turned into what to look for.

A path is a list of parts, each either a name as it is or an expression that a name matches.
Slurm's patterns: sbatch(1), "filename pattern"; src/slurmd/common/fname.c in 22.05.
"""

import fnmatch
import re
from typing import Dict, List, NamedTuple, Optional, Pattern, Union

# What a value that the node cannot know may look like; never a slash.
_UNKNOWN = {
    "A": "[0-9]+",
    "a": "[0-9]+",
    "b": "[0-9]+",
    "s": "[A-Za-z0-9]+",
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


def first_node(node_list: Optional[str]) -> Optional[str]:
    """The first node of a list like ``n[01-04,7],m3``, None where there is none."""
    if not node_list:
        return None
    match = re.match(r"([A-Za-z0-9._-]+)(?:\[([0-9]+)[^\]]*\]([A-Za-z0-9._-]*))?(?:,|$)", node_list)
    if match is None:
        return None
    return match.group(1) + (match.group(2) or "") + (match.group(3) or "")


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
            if width and letter in _NUMERIC and value.isdigit():
                value = value.zfill(min(int(width), 10))
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
