"""The prefixes that launchers put before a worker's line, and whom they name.

| form | made by | names |
|---|---|---|
| ``3: `` | srun --label | Slurm's task |
| ``[default1]:`` (no blank) | torchrun --tee, role and LOCAL rank | local rank |
| ``[host:1]:`` or ``[host:1]`` | torchrun --role "$(hostname -s)" | host and local rank |
| ``[rank3]: `` | torch's excepthook | global rank |
| ``[rank3]:[E...``, ``[rank3]:W0825 ...`` | torch's own C++ and Python logs | global rank |
| ``[rank: 2] `` | Lightning | global rank |

``[rank0]:`` without a blank, before anything but torch's own log lines, is torchrun's for
``--role rank``: a local rank.
"""

from __future__ import annotations

import re
from itertools import pairwise

import msgspec

from firstfault.model.line import Speaker

ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-Z\\-_])")
# srun writes a blank after the label; "1078:[default0]:" is grep's line number.
_TASK = re.compile(r" {0,8}(?:P?\d{1,7} )?(\d{1,7}):(?: |$)")
_TEE = re.compile(r"\[([A-Za-z_][\w.-]{0,63}?)(\d{1,6})\]:")
_TEE_HOST = re.compile(r"\[([A-Za-z0-9][\w.-]{0,252}):(\d{1,4})\]:?")
_RANK = re.compile(
    r"\[rank(\d{1,7})\]:(?= |\[[A-Z][\d ]|\[\d{4}-\d\d-|[VIWEFC]\d{4} \d\d:|$)(?P<blank> ?)"
)
_LIGHTNING = re.compile(r"\[rank: (\d{1,7})\] ")


class Peeled(msgspec.Struct, frozen=True):
    """A line's speaker and the rest; ``hooked`` when torch's own rank prefix stood there."""

    speaker: Speaker
    text: str
    hooked: bool


def peel(text: str, *, labelled: bool) -> Peeled:
    """``text`` without its prefixes; ``labelled`` says that the file has srun's labels."""
    task = local_rank = rank = None
    host = None
    hooked = False
    at = 0
    if labelled and (match := _TASK.match(text)):
        task = int(match[1])
        at = match.end()
    while at < len(text) and text[at] == "[":
        if match := _RANK.match(text, at):
            rank, hooked = int(match[1]), hooked or bool(match["blank"])
        elif match := _TEE.match(text, at):
            local_rank = int(match[2])
        elif match := _LIGHTNING.match(text, at):
            rank = int(match[1])
        elif (match := _TEE_HOST.match(text, at)) and not match[1].isdigit():
            host, local_rank = match[1], int(match[2])
        else:
            break
        at = match.end()
    speaker = Speaker(host=host, task=task, rank=rank, local_rank=local_rank)
    return Peeled(speaker, text[at:], hooked)


def has_task_labels(lines: list[str]) -> bool:
    """Whether ``lines`` (a sample of a file) carry srun's labels.

    A log may have lines that begin with a number and a colon without being labelled; srun
    labels every line of every task, and leaves only srun's and the batch script's own bare.
    """
    numbers: list[int] = []
    bare = 0
    for line in lines:
        if not line.strip() or line.startswith(("srun:", "slurmstepd")):
            continue
        if match := _TASK.match(line):
            numbers.append(int(match[1]))
        else:
            bare += 1
    # Numbers that only grow are a counter's or grep's; tasks speak in turns.
    counted = len(numbers) > 2 and all(a < b for a, b in pairwise(numbers))
    return bool(numbers) and len(numbers) >= 2 * bare and not counted
