"""Records from the node's spool to the daemon: which, and what each answer means.

docs/transport.md lists the answers.
"""

import random
import time
from typing import Callable, Optional, Set

from firstfault_epilog import backlog, entries, sending, spool
from firstfault_epilog.backlog import TROUBLED_MAX, Attempts, State
from firstfault_epilog.sending import Answer
from firstfault_epilog.settings import Settings

NEVER = (400, 413, 422)
FOR_ALL = (429, 502, 503, 504)
# Any other answer may hold for one record alone; so many in a row hold for all.
TROUBLES_MAX = 3

Tell = Callable[[str], None]


def send(settings: Settings, tell: Tell) -> Optional[float]:
    """Sends what waits and is due, the newest first: somebody waits for that.

    Seconds until it is worth another call: None where nothing is left, 0.0 where an entry waits to
    be collected first. Raises OSError where the spool or the queue cannot be used.
    """
    before = backlog.state(settings.queue)
    names = [item.name for item in spool.waiting(settings.spool)]
    now = before._replace(troubled={n: a for n, a in before.troubled.items() if n in names})
    left = set(names)
    row = 0
    if backlog.wait_s(now.all, time.time()) == 0:
        for name in names:
            if not entries.is_empty(settings.queue):
                break
            if backlog.wait_s(now.troubled.get(name, Attempts()), time.time()) > 0:
                continue
            answer = _send_one(settings, name, tell)
            if answer.status == 200:
                left.remove(name)
                row = 0
            else:
                row += 1
            now = _after(now, name, answer, row)
            if answer.fault is not None and _is_news(now, name):
                tell(f"{len(left)} records wait in {settings.spool}: {answer.fault}")
            if backlog.wait_s(now.all, time.time()) > 0:
                break
    if now != before:
        backlog.remember(settings.queue, now)
    if not left:
        return None
    return 0.0 if not entries.is_empty(settings.queue) else _next_s(now, left)


# What is out of the way without the daemon has an answer of 200 here, too, with no document.
def _send_one(settings: Settings, name: str, tell: Tell) -> Answer:
    done = Answer(200, {}, None, None)
    try:
        body = spool.read(settings.spool, name)
    except FileNotFoundError:
        return done
    except spool.SpoolError as error:
        reason = str(error)
    else:
        answer = sending.post(settings, sending.RECORDS, body.node, body.data)
        if answer.status == 200 and isinstance(answer.document.get("result"), str):
            spool.remove(settings.spool, name)
            return answer
        if answer.status == 200:
            # A proxy's page, say: nobody has said that the record is stored.
            fault = f"{settings.daemon} answered 200 but not that it has the record"
            return answer._replace(status=0, fault=fault)
        if answer.status not in NEVER:
            return answer
        reason = answer.fault or ""
    spool.refuse(settings, name, reason)
    tell(f"record {name}: {reason}: put aside in {settings.spool}/{spool.REFUSED}")
    return done


# The state after ``answer``; ``row`` failures in a row.
def _after(before: State, name: str, answer: Answer, row: int) -> State:
    others = {other: value for other, value in before.troubled.items() if other != name}
    if answer.status == 200:
        done = before._replace(all=Attempts(), troubled=others)
        if answer.document and name == before.told[0]:
            done = done._replace(dropped=max(0, before.dropped - before.told[1]), told=("", 0))
        return done
    now_s = time.time()
    after_s = answer.retry_after_s or 0.0
    spread = random.random()  # noqa: S311 (no secret)
    # No answer at all may be this record's fault, too: the next attempt is another's.
    if answer.status not in FOR_ALL and len(others) < TROUBLED_MAX:
        alone = before.troubled.get(name, Attempts())
        others[name] = backlog.failed(alone, after_s, now_s, spread)
    after = before._replace(troubled=others)
    if answer.status is None or answer.status in FOR_ALL or row >= TROUBLES_MAX:
        after = after._replace(all=backlog.failed(before.all, after_s, now_s, spread))
    return after


# The 1st, 2nd, 4th, 8th... failure in a row: days of them fill no log.
def _is_news(now: State, name: str) -> bool:
    failures = max(now.all.failures, now.troubled.get(name, Attempts()).failures)
    return failures & (failures - 1) == 0


def _next_s(now: State, left: Set[str]) -> float:
    at_s = time.time()
    own = min(backlog.wait_s(now.troubled.get(name, Attempts()), at_s) for name in left)
    return max(backlog.wait_s(now.all, at_s), own, 0.01)
