"""How far a rank had come in a process group's collectives, as its NCCL watchdog tells it.

Formats: torch 2.3 to 2.13, csrc/distributed/c10d/ProcessGroupNCCL.cpp, behind the log prefix
("[PG 1 Rank 0]", since 2.5 "[PG ID 0 PG GUID 0(default_pg) Rank 0]"): "last enqueued NCCL work: 7,
last completed NCCL work: 6", since 2.5 also without "NCCL". The report on a desync
(TORCH_NCCL_DESYNC_DEBUG): torch 1.12 to 2.13, csrc/distributed/c10d/TraceUtils.h.
"""

from __future__ import annotations

import re

from firstfault.model.event import Lagging, WorkStatus
from firstfault.model.line import Line

_STATUS = re.compile(
    r"\[PG (?P<group>[^\]\[]{1,200}) Rank (?P<rank>\d{1,7})\].{1,400}?"
    r"[Ll]ast enqueued (?:\w{1,8} )?work: (?P<enqueued>-?\d{1,20}), "
    r"last completed (?:\w{1,8} )?work: (?P<completed>-?\d{1,20})"
)
_LAGGING = re.compile(
    r"\branks \[(\d{1,7}(?:, \d{1,7}){0,200})\] are the lagging ranks that caused this timeout"
    r"|\[(\d{1,7}(?:, \d{1,7}){0,200})\] finished collective #\d{1,12}, but didn't join collective #"
)
# Each line that tells it has one of these.
WORDS = (" work: ", "lagging ranks", "didn't join")


def collective_state(line: Line) -> WorkStatus | Lagging | None:
    """What ``line`` tells of the collectives, None if it is no such line."""
    text = line.text
    if WORDS[0] in text and (match := _STATUS.search(text)):
        return WorkStatus(
            line.place,
            line.speaker,
            match["group"],
            int(match["rank"]),
            int(match["enqueued"]),
            int(match["completed"]),
        )
    if (WORDS[1] in text or WORDS[2] in text) and (match := _LAGGING.search(text)):
        ranks = tuple(int(each) for each in (match[1] or match[2]).split(", "))
        return Lagging(line.place, line.speaker, ranks)
    return None
