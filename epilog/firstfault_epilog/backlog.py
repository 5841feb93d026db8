"""How sending the spool's records went so far: when it goes on, and what was lost meanwhile.

Kept in the queue's folder (`STATE`), so that the next collector goes on from there.
"""

import json
import os
import time
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from firstfault_epilog import patterns, spool
from firstfault_epilog.settings import Settings

STATE = "sending"
BACK_OFF_S = 1.0
BACK_OFF_MAX_S = 120.0
# For longer there is only a clock that was set back.
WAIT_MAX_S = 7200.0
TROUBLED_MAX = 1000
# slurmd delays its own message of the Epilog's end alike: in jobs of more than 64 nodes by the
# node's index times EpilogMsgTime, 2 ms (_delay_rpc in src/slurmd/common/slurmd_common.c, 24.11).
STAGGERED_NODES = 64
STAGGER_S = 0.002
STAGGER_NODES_MAX = 1 << 16

Tell = Callable[[str], None]


class Attempts(NamedTuple):
    """``failures`` in a row; none is made before ``not_before_s`` (seconds since 1970)."""

    failures: int = 0
    not_before_s: float = 0.0


class State(NamedTuple):
    """How sending goes: with all records, and with single ones by their names.

    ``dropped`` counts records that were lost and of which none that arrived has told; ``told`` is
    the latest record that tells, and the number in it.
    """

    all: Attempts = Attempts()
    troubled: Dict[str, Attempts] = {}  # noqa: RUF012 (never changed: `remember` takes a new one)
    dropped: int = 0
    told: Tuple[str, int] = ("", 0)


def state(queue: str) -> State:
    """How sending went so far; as at the first start where that cannot be read."""
    try:
        with open(os.path.join(queue, STATE), encoding="utf-8") as file:
            found = json.loads(file.read(1 << 20))
        return State(
            _attempts(found["all"]),
            {str(name): _attempts(value) for name, value in found["troubled"].items()},
            int(found["dropped"]),
            (str(found["told"][0]), int(found["told"][1])),
        )
    except (OSError, ValueError, TypeError, AttributeError, LookupError, OverflowError):
        return State()


def remember(queue: str, new: State) -> None:
    """Writes the state. Raises OSError."""
    path = os.path.join(queue, STATE)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(new._asdict(), file)
    os.rename(path + ".new", path)


def wait_s(attempts: Attempts, now_s: float) -> float:
    """Seconds until the next attempt, 0.0 where it may be now."""
    left = attempts.not_before_s - now_s
    return left if 0 < left <= WAIT_MAX_S else 0.0


def failed(before: Attempts, retry_after_s: float, now_s: float, spread: float) -> Attempts:
    """The attempts after one that failed: twice the wait each time, beyond ``retry_after_s``.

    ``spread`` (0 to 1) tells the nodes apart, which all saw the daemon go at the same moment.
    """
    failures = before.failures + 1
    delay_s = min(BACK_OFF_MAX_S, BACK_OFF_S * 2 ** min(failures - 1, 16)) * (0.5 + spread / 2)
    return Attempts(failures, now_s + retry_after_s + delay_s)


def accept(settings: Settings, name: str, node_list: Optional[str], node: str, tell: Tell) -> None:
    """What follows when the record ``name`` of a job on ``node_list`` lies in the spool.

    The nodes of a large job are staggered, and the oldest records dropped, counted and told, where
    they are too much to keep. Raises OSError.
    """
    now_s = time.time()
    before = state(settings.queue)
    delay_s = stagger_s(node_list, node)
    after = before._replace(told=(name, before.dropped) if before.dropped else before.told)
    if delay_s > 0 and wait_s(before.all, now_s) == 0:
        after = after._replace(all=Attempts(before.all.failures, now_s + delay_s))
    doomed = spool.surplus(settings)
    # Counted first: what is killed here is counted twice rather than never.
    after = after._replace(dropped=after.dropped + len(doomed))
    if after != before:
        remember(settings.queue, after)
    if doomed:
        spool.drop(settings, doomed)
        tell(
            f"{len(doomed)} records that could not be sent were dropped, the oldest first: more "
            f"than FIRSTFAULT_KEEP_MB={settings.keep_mb:g} wait in {settings.spool}"
        )


def stagger_s(node_list: Optional[str], node: str) -> float:
    """Seconds for which ``node`` lets other nodes of the job go first."""
    nodes = patterns.first_nodes(node_list, STAGGER_NODES_MAX) or []
    if len(nodes) <= STAGGERED_NODES or node not in nodes:
        return 0.0
    return nodes.index(node) * STAGGER_S


def note(queue: str) -> Optional[str]:
    """What the next record tells of those that were lost; None where none was."""
    dropped = state(queue).dropped
    if not dropped:
        return None
    return f"{dropped} earlier records of this node were dropped before they could be sent"


def _attempts(found: Any) -> Attempts:
    return Attempts(int(found[0]), float(found[1]))
