"""Records from the node's spool to the daemon: which, and what each answer means.

docs/transport.md lists the answers.
"""

import os
import random
import select
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from firstfault_epilog import backlog, confined, spool
from firstfault_epilog.backlog import TROUBLED_MAX, Attempts, State
from firstfault_epilog.settings import Settings

NEVER = (400, 413, 422)
FOR_ALL = (429, 502, 503, 504)
# Any other answer may hold for one record alone; so many in a row hold for all.
TROUBLES_MAX = 3
# In one go: so many, and none is begun after so many seconds.
RECORDS_MAX = 200
SECONDS = 5.0
# Beyond what name service, signature, connection and answer of the last one may take.
DEADLINE_S = 150.0

Tell = Callable[[str], None]
Send = Callable[[Dict[str, Any]], None]


class Delivery(NamedTuple):
    """Records under way: ``child`` sends them, until ``stop_at`` (monotonic)."""

    names: Tuple[str, ...]
    child: confined.Child
    stop_at: float


class Result(NamedTuple):
    """What became of one record. ``stored``: the daemon has it; ``never``: it will not take it.

    ``status`` is None where nothing was answered; ``fault`` says why it is not stored.
    """

    name: str
    stored: bool
    never: bool
    status: Optional[int]
    retry_after_s: float
    fault: str


def begin(settings: Settings) -> Tuple[Optional[Delivery], Optional[float]]:
    """Begins to send what is due, the newest first: somebody waits for that.

    The delivery, and the seconds until it is worth another call, None where no record waits. A
    child sends: a daemon, a name service or a munged that does not answer keeps no end from being
    collected. Raises OSError.
    """
    names = [item.name for item in spool.waiting(settings.spool)]
    if not names:
        return None, None
    now_s = time.time()
    state = backlog.state(settings.queue)
    own = {name: backlog.wait_s(state.troubled.get(name, Attempts()), now_s) for name in names}
    wait_s = max(backlog.wait_s(state.all, now_s), min(own.values()))
    if wait_s > 0:
        return None, wait_s
    due = tuple(name for name in names if own[name] == 0)[:RECORDS_MAX]
    child = confined.start(lambda send: _send_all(settings, due, send), None)
    return Delivery(due, child, time.monotonic() + DEADLINE_S), 0.0


def is_over(delivery: Delivery) -> bool:
    """Whether the results are there, or no hope of them."""
    ready, _, _ = select.select([delivery.child.receiver], [], [], 0)
    return bool(ready) or time.monotonic() >= delivery.stop_at


def end(settings: Settings, delivery: Delivery, tell: Tell) -> None:
    """Removes what the daemon has, puts aside what it will never take. Raises OSError."""
    answer = confined.finish(delivery.child, 1.0)
    results = [Result(**frame) for frame in answer.frames]
    if not results:
        fault = answer.fault or "nothing was sent"
        results = [Result(delivery.names[0], False, False, None, 0.0, fault)]
    before = backlog.state(settings.queue)
    now = before._replace(
        troubled={n: a for n, a in before.troubled.items() if _is_there(settings, n)}
    )
    row = 0
    for result in results:
        row = 0 if result.stored or result.never else row + 1
        now = _after(now, result, row)
        if result.stored:
            spool.remove(settings.spool, result.name)
        elif result.never:
            spool.refuse(settings, result.name, result.fault)
            place = f"{settings.spool}/{spool.REFUSED}"
            tell(f"record {result.name}: {result.fault}: put aside in {place}")
        elif _is_news(now, result.name):
            tell(f"records wait in {settings.spool}: {result.fault}")
    if now != before:
        backlog.remember(settings.queue, now)


# In the child. What was found out is told at the end: then the child is no longer needed.
def _send_all(settings: Settings, names: Sequence[str], send: Send) -> None:
    stop_at = time.monotonic() + SECONDS
    results: List[Result] = []
    for name in names:
        results.append(_send_one(settings, name))
        last = results[-TROUBLES_MAX:]
        failed = [result for result in last if not result.stored and not result.never]
        if len(failed) == TROUBLES_MAX or time.monotonic() > stop_at:
            break
        if results[-1].status is None or results[-1].status in FOR_ALL:
            break
    for result in results:
        send(result._asdict())


def _send_one(settings: Settings, name: str) -> Result:
    # http.client and ssl are loaded in the child alone.
    from firstfault_epilog import sending

    try:
        body = spool.read(settings.spool, name)
    except spool.SpoolError as error:
        return Result(name, False, True, 0, 0.0, str(error))
    except OSError as error:
        return Result(name, False, False, 0, 0.0, f"{name}: {error.strerror}")
    answer = sending.post(settings, sending.RECORDS, body.node, body.data)
    stored = answer.status == 200 and isinstance(answer.document.get("result"), str)
    # A proxy's page, say: nobody has said that the record is stored.
    other = f"{settings.daemon} answered 200 but not that it has the record"
    return Result(
        name,
        stored,
        answer.status in NEVER,
        answer.status,
        answer.retry_after_s or 0.0,
        answer.fault or ("" if stored else other),
    )


# The state after ``result``, the ``row``-th failure in a row.
def _after(before: State, result: Result, row: int) -> State:
    name = result.name
    others = {other: value for other, value in before.troubled.items() if other != name}
    if result.stored or result.never:
        done = before._replace(all=Attempts(), troubled=others)
        if result.stored and name == before.told[0]:
            done = done._replace(dropped=max(0, before.dropped - before.told[1]), told=("", 0))
        return done
    now_s = time.time()
    spread = random.random()  # noqa: S311 (no secret)
    # No answer at all may be this record's fault, too: the next attempt is another's.
    if result.status not in FOR_ALL and len(others) < TROUBLED_MAX:
        alone = before.troubled.get(name, Attempts())
        others[name] = backlog.failed(alone, result.retry_after_s, now_s, spread)
    after = before._replace(troubled=others)
    if result.status is None or result.status in FOR_ALL or row >= TROUBLES_MAX:
        after = after._replace(all=backlog.failed(before.all, result.retry_after_s, now_s, spread))
    return after


# The 1st, 2nd, 4th, 8th... failure in a row: days of them fill no log.
def _is_news(now: State, name: str) -> bool:
    failures = max(now.all.failures, now.troubled.get(name, Attempts()).failures)
    return failures & (failures - 1) == 0


def _is_there(settings: Settings, name: str) -> bool:
    return os.path.lexists(os.path.join(settings.spool, name))
