"""Losses and gradient norms that a program reports, and that are NaN to the end.

As trainers print them: Megatron-LM (``lm loss: nan``, ``grad norm: nan``), HF (``'loss': nan``),
bars (``loss=nan``), fairseq (``loss nan``, ``gnorm nan``; its fp16 scale that sinks to nothing).
A NaN among finite values tells nothing: a scaler skips such steps.
"""

from __future__ import annotations

import re

from firstfault.model.event import Sign
from firstfault.model.line import Line
from firstfault.model.verdict import POSSIBLE

_SEARCHED = 2_000
# A validation's, a best or an auxiliary loss is another thing: what may stand before the word is
# little.
_VALUE = re.compile(
    r"(?i)(?:^|[|,;:{(\[\])>#-]|\b\d{1,12}|(?<![a-z])(?:train(?:ing)?|step|lm|total|batch|running|mlm))"
    r"[ _/\t-]{0,3}['\"]?(?P<name>loss|grad(?:ient)?[ _]norm|gnorm)['\"]?(?: ?[:=|] ?| )\(?"
    r"(?:tensor\()?['\"]?(?P<value>nan|[-+]?(?:inf|\d{1,12}(?:\.\d{0,20})?(?:e[-+]?\d{1,3})?))(?![\w.])"
)
_SCALE = re.compile(r"overflow detected, setting loss scale to: (\d\.\d{1,20}(?:e-\d{1,3})?)$")
# fairseq's own least scale is 0.0001.
_NO_SCALE = 0.01
# Megatron-LM's word that it made the step all the same.
_TAKEN = re.compile(r"number of skipped iterations: {1,6}0 \|")
# Each line that begins such reports has one of these.
WORDS = ("nan", "NaN", "overflow det")
# So many reports in a row at a log's end; a gradient alone may be NaN while a scaler seeks.
_LOSSES = 3
_NORMS = 5


class MetricsReader:
    """Takes one stream's lines; `flush` tells whether its last reports are all NaN."""

    def __init__(self) -> None:
        self._first: Line | None = None
        self._losses = 0
        self._norms = 0

    @property
    def idle(self) -> bool:
        """Whether a line without `WORDS` is nothing to it."""
        return self._first is None

    def feed(self, line: Line) -> None:
        """Notes what ``line`` reports."""
        text = line.text
        nan, name, overflow = WORDS
        lost = nan in text or name in text or overflow in text
        if not lost and (self._first is None or ("oss" not in text and "norm" not in text)):
            return
        text = text[:_SEARCHED]
        found = {match["name"].lower(): match["value"].lower() for match in _VALUE.finditer(text)}
        loss, norms = found.pop("loss", None), list(found.values())
        scale = _SCALE.search(text)
        if loss == "nan" or (scale and float(scale[1]) < _NO_SCALE):
            self._note(line)
            self._losses += 1
        elif "nan" in norms:
            self._note(line)
            if _TAKEN.search(text):
                self._losses += 1
            else:
                self._norms += 1
        elif loss is not None or norms:
            self._first, self._losses, self._norms = None, 0, 0

    def flush(self) -> tuple[Sign, ...]:
        """A sign at the first of the last reports, where these are many and all NaN."""
        first = self._first
        if first is None or (self._losses < _LOSSES and self._losses + self._norms < _NORMS):
            return ()
        return (Sign(first.place, first.speaker, "metrics.nan", "training.nan", POSSIBLE),)

    def _note(self, line: Line) -> None:
        if self._first is None:
            self._first = line
