"""Which pending ends the daemon wants: the question, and what its answer may say.

docs/transport.md describes both (``firstfault.wanted/1``). The answer is a stranger's input.
"""

import json
import os
import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from firstfault_epilog import record
from firstfault_epilog.entries import Entry
from firstfault_epilog.job import job_of

SCHEMA = "firstfault.wanted/1"
# In one question.
ASKED_MAX = 500
YES = "yes"
NO = "no"
LATER = "later"
PATHS_MAX = 64
PATH_BYTES_MAX = 4095
# Without the daemon's word on it, as long again as was waited already.
AGAIN_MIN_S = 5.0
AGAIN_MAX_S = 600.0
TOLD_MAX_S = 3600.0
# Not files of the owner's, though the owner may own them: /proc/PID/environ.
_NOT_LOGS = ("/proc/", "/sys/", "/dev/")
_NODES_MAX = 1 << 16


class Word(NamedTuple):
    """The daemon's word on one end: ``verdict`` is `YES`, `NO` or `LATER`.

    ``paths`` and ``reads_shared`` are as in `collection.Asked`.
    """

    verdict: str
    paths: Tuple[str, ...] = ()
    reads_shared: bool = False


class Reply(NamedTuple):
    """``words`` by the ends' ids; ``ask_again_s`` is None where the daemon did not say."""

    words: Dict[str, Word]
    ask_again_s: Optional[float]


def row(entry: Entry, record_id: str) -> Dict[str, Any]:
    """One end as the question holds it."""
    nodes = entry.value("SLURM_JOB_NODELIST") or entry.value("SLURM_NODELIST")
    return {
        "id": record_id,
        "job": job_of(entry).id,
        "run": run_of(entry),
        "ended_at": record.instant(entry.ended_at_s),
        "nodes": nodes if nodes and len(nodes) <= _NODES_MAX else None,
    }


def run_of(entry: Entry) -> Optional[str]:
    """What tells this incarnation of the job from others, as the daemon writes it.

    Slurm 25.11 tells the node a unique id, 23.02 the start; before, nothing.
    """
    for name in ("SLURM_JOB_SLUID", "SLURM_JOB_START_TIME"):
        value = entry.value(name) or ""
        if re.match(r"[0-9A-Za-z]{1,32}\Z", value) and value != "0":
            return f"{name[10:].lower()}:{value}"
    return None


def question(node: str, cluster: Optional[str], rows: Sequence[Dict[str, Any]]) -> bytes:
    """The question's body, of at most `ASKED_MAX` rows."""
    document = {"schema": SCHEMA, "node": node, "cluster": cluster, "asked": list(rows)}
    return json.dumps(document, separators=(",", ":")).encode("ascii")


def reply(document: Dict[str, Any], ids: Sequence[str]) -> Reply:
    """The daemon's word on ``ids``; what is malformed or not there means `LATER`."""
    answers = document.get("answers")
    if not isinstance(answers, dict):
        answers = {}
    words = {each: _word(answers.get(each)) for each in ids}
    again = document.get("ask_again_s")
    if isinstance(again, bool) or not isinstance(again, (int, float)) or not 0 <= again < 1e9:
        return Reply(words, None)
    return Reply(words, float(again))


def again_s(waited_s: float, told_s: Optional[float]) -> float:
    """Seconds until the next question on an end that waited ``waited_s`` for an answer so far.

    ``told_s`` is the daemon's own word, None where it gave none.
    """
    if told_s is None:
        return min(max(waited_s, AGAIN_MIN_S), AGAIN_MAX_S)
    return min(max(told_s, AGAIN_MIN_S), TOLD_MAX_S)


def _word(found: object) -> Word:
    if not isinstance(found, dict):
        return Word(LATER)
    verdict = found.get("wanted")
    if verdict not in (YES, NO):
        return Word(LATER)
    return Word(verdict, _paths(found.get("paths")), found.get("reads_shared") is True)


def _paths(found: object) -> Tuple[str, ...]:
    if not isinstance(found, list):
        return ()
    good: List[str] = []
    for path in found:
        if _is_path(path) and path not in good:
            good.append(path)
    return tuple(good[:PATHS_MAX])


def _is_path(path: object) -> bool:
    if not isinstance(path, str) or not path.startswith("/") or "\0" in path:
        return False
    try:
        size = len(os.fsencode(path))
    except UnicodeEncodeError:
        return False
    plain = os.path.normpath("/" + path.lstrip("/")) == path
    return plain and size <= PATH_BYTES_MAX and not path.startswith(_NOT_LOGS)
