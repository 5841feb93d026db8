"""What a line of output must hold to be looked at, while no reader is in the midst of something.

Each reader names the words without which a line is nothing to it; together with those of the
signatures they tell the lines that are read one by one from those that are passed over.
"""

from __future__ import annotations

from functools import lru_cache

from firstfault.readers import (
    collectives,
    communicators,
    fatal,
    launchers,
    metrics,
    python,
    slurm_output,
    stack_lines,
    stacks,
    table,
    world,
)
from firstfault.signatures import words_of_lines
from firstfault.streams.passages import Telling

_OF_READERS = (
    *collectives.WORDS,
    communicators.WORD,
    fatal.WORD,
    *launchers.WORDS,
    *metrics.WORDS,
    *python.WORDS,
    *slurm_output.SLURM_WORDS,
    *stack_lines.BARE_WORDS,
    *stacks.BEGINNINGS,
    *table.WORDS,
    *world.WORDS,
)


def telling() -> Telling | None:
    """What finds those lines; None where a signature has no words, so that it may be any line."""
    words = words_of_lines()
    return None if words is None else _telling(words)


@lru_cache(maxsize=2)
def _telling(words: frozenset[str]) -> Telling:
    return Telling((*_OF_READERS, *words))
