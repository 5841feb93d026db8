"""The tables that lists, counts and standings of failures are read from.

All of it follows from ``jobs`` and ``verdicts``, and is written with the verdict in one transaction
(`firstfault.store.failures`). No key of ``jobs`` is a foreign key here, and none is called
``job_key``: a program of before removes a job without knowing of these.

What is looked for by many (users, causes, words of a title) stands in the rows as a number of
``names``; nodes have numbers of their own. So an index over all that can be filtered by is narrow
enough to be read from end to end.
"""

from __future__ import annotations

import sqlalchemy as sa

from firstfault.store.schema import Key, UtcTime, metadata

# A name stands with its kind: "user:alice", "word:rank". Names of a kind, and causes of a family, are
# a range of them: in the order of bytes, whatever the order of the database's language.
BYTEWISE = sa.String(300).with_variant(sa.String(300, collation="C"), "postgresql")
names = sa.Table(
    "names",
    metadata,
    sa.Column("key", Key, primary_key=True),
    sa.Column("name", BYTEWISE, nullable=False, unique=True),
)

# Nodes that failed jobs ran on, and when each last sent a record of any job.
nodes = sa.Table(
    "nodes",
    metadata,
    sa.Column("key", Key, primary_key=True),
    sa.Column("cluster", sa.String(64), nullable=False),
    sa.Column("node", sa.String(255), nullable=False),
    sa.Column("last_record_at", UtcTime),
    sa.UniqueConstraint("cluster", "node"),
)

# A job whose newest verdict names a failure; ``key`` is the job's. Columns from ``cluster`` to
# ``fingerprint`` are numbers of names, but for domain and confidence (`firstfault.store.failures`).
# ``started_at`` NULL: Slurm has not told, and ``node_s`` is 0 then. ``host`` is a node.
# ``verdict`` is the newest verdict's key.
failures = sa.Table(
    "failures",
    metadata,
    sa.Column("key", Key, primary_key=True, autoincrement=False),
    sa.Column("ended_at", UtcTime, nullable=False),
    sa.Column("cluster", sa.Integer, nullable=False),
    sa.Column("cause", sa.Integer, nullable=False),
    sa.Column("domain", sa.SmallInteger, nullable=False),
    sa.Column("confidence", sa.SmallInteger, nullable=False),
    sa.Column("user", sa.Integer),
    sa.Column("account", sa.Integer),
    sa.Column("partition", sa.Integer),
    sa.Column("name", sa.Integer),
    sa.Column("fingerprint", sa.Integer),
    sa.Column("nodes", sa.Integer, nullable=False),
    sa.Column("node_s", sa.BigInteger, nullable=False),
    sa.Column("gpu_s", sa.BigInteger),
    sa.Column("started_at", UtcTime),
    sa.Column("host", sa.Integer),
    sa.Column("verdict", Key, nullable=False),
    sa.Column("verdict_revision", sa.Integer, nullable=False),
    sa.Column("facts_revision", sa.Integer, nullable=False),
    # What it is counted by and found by: numbers of nodes, and of words, four bytes each.
    sa.Column("members", sa.LargeBinary, nullable=False),
    sa.Column("words", sa.LargeBinary, nullable=False),
)

FILTERED = (
    "cluster",
    "cause",
    "domain",
    "confidence",
    "user",
    "account",
    "partition",
    "name",
    "fingerprint",
)
# The narrowest first, as a rule.
LEADING = ("fingerprint", "name", "user", "account", "cause", "partition")
_SUMMED = ("nodes", "node_s", "gpu_s")


def covering(*first: str) -> list[str]:
    """The columns of an index that begins with these and holds all that is filtered and summed."""
    begun = [*first, *(name for name in ("ended_at", "key") if name not in first)]
    return begun + [name for name in (*FILTERED, *_SUMMED) if name not in begun]


# By name: the columns. Each begins with what a list is filtered or ordered by.
INDEXES = {
    "failures_ended_at": covering("ended_at"),
    **{f"failures_{name}": covering(name) for name in LEADING},
    "failures_node_s": covering("node_s", "key"),
    "failures_nodes": covering("nodes", "key"),
    "failures_host": ["host", "ended_at", "domain", "cause", "user"],
    "failures_verdict": ["verdict"],
    "failures_user_verdict": ["user", "verdict"],
    "failures_account_verdict": ["account", "verdict"],
}
for _name, _columns in INDEXES.items():
    sa.Index(_name, *(failures.c[column] for column in _columns))

# Which failures a node took part in, and in which a word stands; the newest are found first.
failure_nodes = sa.Table(
    "failure_nodes",
    metadata,
    sa.Column("node", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("ended_at", UtcTime, primary_key=True),
    sa.Column("failure", Key, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)
failure_words = sa.Table(
    "failure_words",
    metadata,
    sa.Column("word", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("ended_at", UtcTime, primary_key=True),
    sa.Column("failure", Key, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)

# Failures counted by the day of their end (days since 1970, in UTC).
failure_days = sa.Table(
    "failure_days",
    metadata,
    sa.Column("day", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("cluster", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("cause", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("domain", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("node_s", sa.BigInteger, nullable=False),
    sa.Column("gpu_s", sa.BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# A node's part in failures, by spans of ``days`` days, ``span`` of them since 1970: a year is read
# as a few long spans and some days. ``trials`` are failures that began on a node of the job and
# may be the system's, ``initiated`` those that began on this one; ``expected_ppm`` sums up a
# millionth of 1 / nodes of each trial; ``alone`` are trials of one node.
node_days = sa.Table(
    "node_days",
    metadata,
    sa.Column("days", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("span", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("node", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("took_part", sa.Integer, nullable=False),
    sa.Column("trials", sa.Integer, nullable=False),
    sa.Column("initiated", sa.Integer, nullable=False),
    sa.Column("alone", sa.Integer, nullable=False),
    sa.Column("expected_ppm", sa.BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# The same failure again and again; ``key`` is its number in ``names``, ``newest`` the failure that
# ended last.
fingerprints = sa.Table(
    "fingerprints",
    metadata,
    sa.Column("key", Key, primary_key=True, autoincrement=False),
    sa.Column("first_at", UtcTime, nullable=False),
    sa.Column("last_at", UtcTime, nullable=False),
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("newest", Key, nullable=False),
    sa.Index("fingerprints_last_at", "last_at", "key"),
)
fingerprint_users = sa.Table(
    "fingerprint_users",
    metadata,
    sa.Column("fingerprint", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("user", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("failures", sa.Integer, nullable=False),
    sqlite_with_rowid=False,
)

# What somebody knows of a fingerprint; it outlives its failures.
fingerprint_notes = sa.Table(
    "fingerprint_notes",
    metadata,
    sa.Column("fingerprint", sa.String(300), primary_key=True),
    sa.Column("note", sa.Text, nullable=False),
    sa.Column("noted_by", sa.Text, nullable=False),
    sa.Column("noted_at", UtcTime, nullable=False),
)
