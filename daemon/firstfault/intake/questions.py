"""Which ends are wanted: the nodes' questions and the daemon's answers (docs/transport.md)."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

SCHEMA = "firstfault.wanted/1"
ASKED_MAX = 500

YES: Literal["yes"] = "yes"
NO: Literal["no"] = "no"
LATER: Literal["later"] = "later"

_Id = Annotated[str, msgspec.Meta(pattern=r"^[\x21-\x7e]{1,200}\Z")]
_Job = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,20}\Z")]
_Time = Annotated[dt.datetime, msgspec.Meta(tz=True)]


class QuestionError(ValueError):
    """A question that cannot be read; the message says why."""


class Asked(msgspec.Struct, frozen=True):
    """One end of a job on the node that asks. ``run`` tells the job's incarnation, None where the
    node does not know it; ``nodes`` is the job's node list as Slurm writes it."""

    id: _Id
    job: _Job
    ended_at: _Time
    run: str | None = None
    nodes: str | None = None


class Question(msgspec.Struct, frozen=True):
    """What ``node`` asks."""

    schema: str
    node: str
    asked: tuple[Asked, ...]
    cluster: str | None = None


class Wanted(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether one end is wanted, and what its node is to read beside what it knows of."""

    wanted: Literal["yes", "no", "later"]
    paths: tuple[str, ...] = ()
    reads_shared: bool = False


class Answers(msgspec.Struct, frozen=True):
    """By the asked ids. ``ask_again_s``: when to ask again for those that are "later"."""

    answers: Mapping[str, Wanted]
    ask_again_s: int


def decode(body: bytes) -> Question:
    """The question in ``body`` (JSON). Raises `QuestionError`."""
    try:
        question = msgspec.json.decode(body, type=Question)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise QuestionError(f"not a question: {error}") from error
    if question.schema != SCHEMA:
        raise QuestionError(f"not a {SCHEMA}: its schema is {question.schema[:80]!r}")
    if len(question.asked) > ASKED_MAX:
        raise QuestionError(f"more than {ASKED_MAX} ends in one question")
    return question


def is_run(text: str | None) -> bool:
    """True for what names an incarnation ("sluid:...", "start_time:...")."""
    return text is not None and re.fullmatch(r"[a-z_]{1,20}:[0-9A-Za-z]{1,32}", text) is not None
