"""How many ranks a program says that there are.

| form | from |
|---|---|
| ``Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/8`` | Lightning, fabric/utilities/distributed.py |
| ``dist_world_size=8`` | deepspeed/launcher/launch.py |
| ``using world size: 8, ...`` | Megatron-LM, megatron/training/arguments.py |
| ``world_size=8``, ``world size: 8`` | programs' own words |
"""

from __future__ import annotations

import re

from firstfault.model.event import WorldSize
from firstfault.model.line import Line

_LIGHTNING = re.compile(
    r"[Ii]nitializing (?:distributed|ddp): GLOBAL_RANK: (\d{1,7}), MEMBER: \d{1,7}/(\d{1,7})"
)
_SIZE = re.compile(r"(?:dist_|\b)(?:world[_ ]size|WORLD_SIZE)(?: ?= ?|: )(\d{1,7})(?![\w.])")
# Each line that tells it has one of these.
WORDS = ("orld", "WORLD", "MEMBER: ")


def world_size(line: Line) -> WorldSize | None:
    """The number of ranks that ``line`` tells, None if it tells none."""
    text = line.text
    small, capital, member = WORDS
    if not (small in text or capital in text or member in text):
        return None
    if match := _LIGHTNING.search(text):
        rank, size = int(match[1]), int(match[2])
        return WorldSize(line.place, line.speaker, size, rank) if rank < size else None
    match = _SIZE.search(text)
    if match is None or int(match[1]) == 0:
        return None
    return WorldSize(line.place, line.speaker, int(match[1]), line.speaker.rank)
