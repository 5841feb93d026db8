"""What a clock that was set back would leave lying: times that are in the future now."""

from __future__ import annotations

import datetime as dt

import sqlalchemy as sa

from firstfault.model import jobs as j
from firstfault.store.database import Database
from firstfault.store.schema import deliveries, jobs, messages, sweeps

# What has been cannot lie in the future, and what is to come can, by what is really waited for.
_PAST = (jobs.c.first_seen_at, jobs.c.settled_at, jobs.c.tried_at)
_TO_COME = (jobs.c.look_at, jobs.c.ask_at, jobs.c.lease_until)


def bring_near(database: Database, now: dt.datetime, longest: dt.timedelta) -> int:
    """Makes due now what the clock of before had put off; returns how much that was.

    Touched are jobs that were seen in what is the future now, and jobs, deliveries and messages that
    are put off by more than ``longest``. A job that is due too early is put off anew when it is looked at.
    """
    far = now + longest
    wrong = sa.or_(*(time > now for time in _PAST), *(time > far for time in _TO_COME))
    values = {time: sa.case((time > now, _at(now)), else_=time) for time in (*_PAST, *_TO_COME)}
    with database.writing() as connection:
        touched = connection.execute(jobs.update().where(wrong).values(values)).rowcount
        touched += connection.execute(
            deliveries.update()
            .where(deliveries.c.state == j.PENDING, deliveries.c.next_at > far)
            .values(next_at=now)
        ).rowcount
        touched += connection.execute(
            messages.update().where(messages.c.next_at > far).values(next_at=now)
        ).rowcount
        connection.execute(sweeps.update().where(sweeps.c.until_at > now).values(until_at=now))
    return touched


def _at(now: dt.datetime) -> sa.BindParameter[dt.datetime]:
    return sa.bindparam(None, now, jobs.c.look_at.type)
