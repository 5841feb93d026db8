"""Failures as lists, counts and standings read them.

Revision 0005, after 0004. The tables are filled from the jobs that there are after the start, in
small steps (`firstfault.store.filling`).
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TABLES = (
    "fingerprint_notes",
    "fingerprint_users",
    "fingerprints",
    "node_days",
    "failure_days",
    "failure_words",
    "failure_nodes",
    "failures",
    "nodes",
    "names",
)
_FILTERED = (
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


def upgrade() -> None:
    """Adds the tables."""
    bytewise = sa.String(300).with_variant(sa.String(300, collation="C"), "postgresql")
    op.create_table(
        "names",
        sa.Column("key", _KEY, primary_key=True),
        sa.Column("name", bytewise, nullable=False, unique=True),
    )
    op.create_table(
        "nodes",
        sa.Column("key", _KEY, primary_key=True),
        sa.Column("cluster", sa.String(64), nullable=False),
        sa.Column("node", sa.String(255), nullable=False),
        sa.Column("last_record_at", sa.BigInteger),
        sa.UniqueConstraint("cluster", "node"),
    )
    _failures()
    for table, what in (("failure_nodes", "node"), ("failure_words", "word")):
        op.create_table(
            table,
            _number(what, sa.Integer),
            sa.Column("ended_at", sa.BigInteger, primary_key=True),
            _number("failure", _KEY),
            sqlite_with_rowid=False,
        )
    _counts()
    op.create_table(
        "fingerprints",
        _number("key", _KEY),
        sa.Column("first_at", sa.BigInteger, nullable=False),
        sa.Column("last_at", sa.BigInteger, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("newest", _KEY, nullable=False),
    )
    op.create_index("fingerprints_last_at", "fingerprints", ["last_at", "key"])
    op.create_table(
        "fingerprint_users",
        _number("fingerprint", sa.Integer),
        _number("user", sa.Integer),
        sa.Column("failures", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "fingerprint_notes",
        sa.Column("fingerprint", sa.String(300), primary_key=True),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("noted_by", sa.Text, nullable=False),
        sa.Column("noted_at", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    """Takes them away."""
    for table in _TABLES:
        op.drop_table(table)


def _failures() -> None:
    op.create_table(
        "failures",
        _number("key", _KEY),
        sa.Column("ended_at", sa.BigInteger, nullable=False),
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
        sa.Column("started_at", sa.BigInteger),
        sa.Column("host", sa.Integer),
        sa.Column("verdict", _KEY, nullable=False),
        sa.Column("verdict_revision", sa.Integer, nullable=False),
        sa.Column("facts_revision", sa.Integer, nullable=False),
        sa.Column("members", sa.LargeBinary, nullable=False),
        sa.Column("words", sa.LargeBinary, nullable=False),
    )
    leading = ("user", "account", "cause", "partition", "name", "fingerprint")
    for name, first in (
        ("ended_at", ["ended_at", "key"]),
        *((each, [each, "ended_at", "key"]) for each in leading),
        ("node_s", ["node_s", "key", "ended_at"]),
        ("nodes", ["nodes", "key", "ended_at"]),
    ):
        rest = [each for each in (*_FILTERED, "nodes", "node_s", "gpu_s") if each not in first]
        op.create_index(f"failures_{name}", "failures", first + rest)
    op.create_index("failures_host", "failures", ["host", "ended_at", "domain", "cause", "user"])
    op.create_index("failures_verdict", "failures", ["verdict"])
    op.create_index("failures_user_verdict", "failures", ["user", "verdict"])
    op.create_index("failures_account_verdict", "failures", ["account", "verdict"])


def _counts() -> None:
    op.create_table(
        "failure_days",
        _number("day", sa.Integer),
        _number("cluster", sa.Integer),
        _number("cause", sa.Integer),
        _number("domain", sa.SmallInteger),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("node_s", sa.BigInteger, nullable=False),
        sa.Column("gpu_s", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "node_days",
        _number("days", sa.SmallInteger),
        _number("span", sa.Integer),
        _number("node", sa.Integer),
        sa.Column("took_part", sa.Integer, nullable=False),
        sa.Column("trials", sa.Integer, nullable=False),
        sa.Column("initiated", sa.Integer, nullable=False),
        sa.Column("alone", sa.Integer, nullable=False),
        sa.Column("expected_ppm", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )


def _number(
    name: str, kind: sa.types.TypeEngine[int] | type[sa.types.TypeEngine[int]]
) -> sa.Column[int]:
    # Of a primary key; without this SQLAlchemy would have the database count it up.
    return sa.Column(name, kind, primary_key=True, autoincrement=False)
