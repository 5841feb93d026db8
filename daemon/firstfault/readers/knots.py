"""Tracebacks that several writers wrote into each other, line by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from firstfault.model.event import Frame


def frames_of_each(
    frames: Sequence[Frame], headers: int, ends: int, last_header: int
) -> tuple[tuple[Frame, ...], bool]:
    """The frames that each of the mixed tracebacks surely has, and whether some are missing.

    ``frames`` stand as they were written, ``last_header`` is how many stood before the last
    header. Ranks that fail alike write the same frames in the same order: then each has them all.
    Where one traceback only has an end, the others were cut, and its frames are those below the
    last header, unless one of them was written above it too. Else no frame is anyone's for sure.
    """
    alike = _alike(frames, headers)
    if alike is not None:
        return alike, False
    below = frames[last_header:]
    if ends == 1 and not set(below) & set(frames[:last_header]):
        return tuple(below), True
    return (), True


# The frames of `headers` equal stacks, None if they are not equal.
def _alike(frames: Sequence[Frame], headers: int) -> tuple[Frame, ...] | None:
    order = tuple(dict.fromkeys(frames))
    if any(count != headers for count in Counter(frames).values()):
        return None
    layers: list[list[Frame]] = [[] for _ in range(headers)]
    seen: Counter[Frame] = Counter()
    for frame in frames:
        layers[seen[frame]].append(frame)
        seen[frame] += 1
    return order if all(tuple(layer) == order for layer in layers) else None
