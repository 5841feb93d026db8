"""The tables. Migrations make them; this says what the code reads and writes.

Times are microseconds since 1970 in UTC: exact, ordered, and the same on SQLite and PostgreSQL.
An absent cluster is "", since NULL is never equal to itself in a unique key.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import sqlalchemy as sa

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class UtcTime(sa.types.TypeDecorator[dt.datetime]):
    """An aware datetime in UTC, kept as microseconds since 1970."""

    impl = sa.BigInteger
    cache_ok = True

    def process_bind_param(self, value: dt.datetime | None, dialect: sa.Dialect) -> int | None:
        """Microseconds of an aware time."""
        if value is None:
            return None
        return (value - _EPOCH) // dt.timedelta(microseconds=1)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> dt.datetime | None:
        """The time in UTC."""
        return None if value is None else _EPOCH + dt.timedelta(microseconds=int(value))


# SQLite numbers rows by itself only where the key is INTEGER; PostgreSQL's are 64 bits wide.
Key = sa.BigInteger().with_variant(sa.Integer, "sqlite")

metadata = sa.MetaData()

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("key", Key, primary_key=True),
    sa.Column("cluster", sa.String(64), nullable=False),
    sa.Column("job", sa.String(32), nullable=False),
    sa.Column("incarnation", sa.Integer, nullable=False),
    sa.Column("run", sa.String(64)),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("node_list", sa.Text),
    sa.Column("nodes_expected", sa.Integer, nullable=False),
    sa.Column("nodes_reported", sa.Integer, nullable=False),
    sa.Column("suspicious", sa.Boolean, nullable=False),
    sa.Column("first_ended_at", UtcTime, nullable=False),
    sa.Column("last_ended_at", UtcTime, nullable=False),
    sa.Column("first_seen_at", UtcTime, nullable=False),
    sa.Column("settled_at", UtcTime),
    sa.Column("evidence_revision", sa.Integer, nullable=False),
    sa.Column("facts_revision", sa.Integer, nullable=False),
    sa.Column("judged_evidence", sa.Integer, nullable=False),
    sa.Column("judged_facts", sa.Integer, nullable=False),
    sa.Column("tried_at", UtcTime),
    sa.Column("facts", sa.LargeBinary),
    sa.Column("facts_asked", sa.Integer, nullable=False),
    sa.Column("facts_closed", sa.Boolean, nullable=False),
    sa.Column("ask_at", UtcTime),
    sa.Column("verdict_revision", sa.Integer, nullable=False),
    sa.Column("posted", sa.Integer, nullable=False),
    sa.Column("name", sa.Text),
    sa.Column("user", sa.Text),
    sa.Column("cause", sa.String(64)),
    sa.Column("title", sa.Text),
    sa.Column("confidence", sa.String(16)),
    sa.Column("rank", sa.Integer),
    sa.Column("host", sa.Text),
    sa.Column("look_at", UtcTime),
    sa.Column("lease", sa.String(64)),
    sa.Column("lease_until", UtcTime),
    # Of a heterogeneous job: how many of its components have reported. NULL: it is none.
    sa.Column("components", sa.Integer),
    # When the evidence was given up by age or size: from then on the verdict stands.
    sa.Column("emptied_at", UtcTime),
    sa.UniqueConstraint("cluster", "job", "incarnation"),
    sa.Index("jobs_look_at", "look_at"),
    sa.Index("jobs_ask_at", "ask_at"),
    sa.Index("jobs_last_ended_at", "last_ended_at", "key"),
    sa.Index("jobs_job", "job"),
    sa.Index("jobs_first_seen_at", "first_seen_at"),
    sa.Index("jobs_state", "state"),
)

evidence = sa.Table(
    "evidence",
    metadata,
    sa.Column("key", Key, primary_key=True),
    sa.Column("job_key", Key, sa.ForeignKey("jobs.key"), nullable=False),
    sa.Column("record_id", sa.String(200), nullable=False, unique=True),
    sa.Column("node", sa.String(255), nullable=False),
    sa.Column("ended_at", UtcTime, nullable=False),
    sa.Column("stored_at", UtcTime, nullable=False),
    sa.Column("encoding", sa.String(16), nullable=False),
    sa.Column("size", sa.Integer, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    # The component's own job id, of a heterogeneous job.
    sa.Column("component", sa.String(32)),
    # The body's bytes as they are stored, packed.
    sa.Column("packed_size", sa.Integer),
    sa.Index("evidence_job_node", "job_key", "node"),
    sa.Index("evidence_stored_at", "stored_at", "job_key", "packed_size"),
)

verdicts = sa.Table(
    "verdicts",
    metadata,
    sa.Column("key", Key, primary_key=True),
    sa.Column("job_key", Key, sa.ForeignKey("jobs.key"), nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("cause", sa.String(64), nullable=False),
    sa.Column("confidence", sa.String(16), nullable=False),
    sa.Column("fingerprint", sa.Text),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.UniqueConstraint("job_key", "revision"),
)

deliveries = sa.Table(
    "deliveries",
    metadata,
    sa.Column("key", Key, primary_key=True),
    sa.Column("delivery_id", sa.String(64), nullable=False, unique=True),
    sa.Column("job_key", Key, sa.ForeignKey("jobs.key"), nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("channel", sa.String(32), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("next_at", UtcTime),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("sent_at", UtcTime),
    sa.Column("error", sa.Text),
    sa.UniqueConstraint("job_key", "revision", "channel"),
    sa.Index("deliveries_next_at", "next_at"),
    sa.Index("deliveries_due", "channel", "state", "next_at"),
)

# What a job's newest verdict says of nodes: the host of its first failure and the others that it
# names, where the cause may lie in the system.
node_incidents = sa.Table(
    "node_incidents",
    metadata,
    sa.Column("key", Key, primary_key=True),
    sa.Column("job_key", Key, sa.ForeignKey("jobs.key"), nullable=False),
    sa.Column("node", sa.String(255), nullable=False),
    sa.Column("at", UtcTime, nullable=False),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("cause", sa.String(64), nullable=False),
    sa.Column("domain", sa.String(16), nullable=False),
    sa.Column("confidence", sa.String(16), nullable=False),
    sa.UniqueConstraint("job_key", "node"),
    sa.Index("node_incidents_node", "node", "at"),
    sa.Index("node_incidents_at", "at"),
)

# One row: the oldest program, by the newest revision that it knows, which may use this schema.
compatibility = sa.Table(
    "compatibility",
    metadata,
    sa.Column("key", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("oldest_program", sa.String(32), nullable=False),
)

# How far has been looked for jobs of which no record came.
sweeps = sa.Table(
    "sweeps",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("began_at", UtcTime, nullable=False),
    sa.Column("until_at", UtcTime, nullable=False),
)

# Messages that a bot may change after they are posted: which jobs each tells of, and whether it says
# what is to be said (docs/slack.md). ``ts`` NULL: it is not known to be posted. ``next_at`` is when
# it is to be brought up to date, NULL: it is; ``wanted`` counts what changed.
messages = sa.Table(
    "messages",
    metadata,
    sa.Column("key", Key, primary_key=True),
    sa.Column("message_id", sa.String(64), nullable=False, unique=True),
    sa.Column("channel", sa.String(32), nullable=False),
    sa.Column("conversation", sa.String(64), nullable=False),
    sa.Column("subject", sa.String(200), nullable=False),
    sa.Column("array", sa.String(120)),
    sa.Column("incident_key", Key, sa.ForeignKey("incidents.key")),
    sa.Column("ts", sa.String(32)),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("joined_at", UtcTime, nullable=False),
    sa.Column("shown_at", UtcTime),
    sa.Column("next_at", UtcTime),
    sa.Column("wanted", sa.Integer, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("error", sa.Text),
    sa.Index("messages_next_at", "next_at"),
    sa.Index("messages_conversation", "channel", "conversation", "joined_at"),
    sa.Index("messages_incident", "incident_key"),
)

# A job is told of in one message of a channel.
message_jobs = sa.Table(
    "message_jobs",
    metadata,
    sa.Column("key", Key, primary_key=True),
    sa.Column("message_key", Key, sa.ForeignKey("messages.key"), nullable=False),
    sa.Column("job_key", Key, sa.ForeignKey("jobs.key"), nullable=False),
    sa.Column("channel", sa.String(32), nullable=False),
    sa.UniqueConstraint("job_key", "channel"),
    sa.Index("message_jobs_message", "message_key"),
)

# What a job's newest verdict has in common with other jobs', where the cause may lie in the system:
# a node, a file system, a cause. From these incidents are made.
signs = sa.Table(
    "signs",
    metadata,
    sa.Column("key", Key, primary_key=True),
    sa.Column("job_key", Key, sa.ForeignKey("jobs.key"), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("at", UtcTime, nullable=False),
    sa.UniqueConstraint("job_key", "kind", "name"),
    sa.Index("signs_at", "at"),
)

# The same node, file system or cause in several jobs within a short time.
incidents = sa.Table(
    "incidents",
    metadata,
    sa.Column("key", Key, primary_key=True),
    sa.Column("cluster", sa.String(64), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("opened_at", UtcTime, nullable=False),
    sa.Column("last_at", UtcTime, nullable=False),
    sa.Column("ended_at", UtcTime),
    sa.Column("acknowledged_at", UtcTime),
    sa.Column("acknowledged_by", sa.Text),
    sa.Index("incidents_ended_at", "ended_at"),
    sa.Index("incidents_last_at", "last_at"),
)

# A job belongs to one incident.
incident_jobs = sa.Table(
    "incident_jobs",
    metadata,
    sa.Column("key", Key, primary_key=True),
    sa.Column("incident_key", Key, sa.ForeignKey("incidents.key"), nullable=False),
    sa.Column("job_key", Key, sa.ForeignKey("jobs.key"), nullable=False, unique=True),
    sa.Index("incident_jobs_incident", "incident_key"),
)

# Of what the administrators want to hear nothing for a while. ``reservation`` names a maintenance
# reservation that says so, "": somebody did.
silences = sa.Table(
    "silences",
    metadata,
    sa.Column("key", Key, primary_key=True),
    sa.Column("cluster", sa.String(64), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("until", UtcTime, nullable=False),
    sa.Column("said_by", sa.Text, nullable=False),
    sa.Column("reservation", sa.String(255), nullable=False),
    sa.UniqueConstraint("cluster", "kind", "name", "reservation"),
    sa.Index("silences_until", "until"),
)

# Reports of logs that readers sent, and wished to be kept. ``owner`` tells whose it is (docs/access.md);
# ``body`` is the verdict with its warnings, JSON packed by zstd.
explained = sa.Table(
    "explained",
    metadata,
    sa.Column("key", Key, primary_key=True),
    sa.Column("id", sa.String(32), nullable=False, unique=True),
    sa.Column("owner", sa.String(300), nullable=False),
    sa.Column("kept_by", sa.Text, nullable=False),
    sa.Column("kept_at", UtcTime, nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("cause", sa.String(64), nullable=False),
    sa.Column("confidence", sa.String(16), nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Index("explained_owner", "owner", "kept_at", "id"),
    sa.Index("explained_kept_at", "kept_at"),
)
