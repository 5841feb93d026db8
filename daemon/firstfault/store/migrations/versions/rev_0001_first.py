"""The first schema: jobs, evidence, verdicts, deliveries.

Revision 0001. A migration is frozen: it repeats the columns instead of importing the schema.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Makes the tables."""
    op.create_table(
        "jobs",
        sa.Column("key", KEY, primary_key=True),
        sa.Column("cluster", sa.String(64), nullable=False),
        sa.Column("job", sa.String(32), nullable=False),
        sa.Column("incarnation", sa.Integer, nullable=False),
        sa.Column("run", sa.String(64)),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("node_list", sa.Text),
        sa.Column("nodes_expected", sa.Integer, nullable=False),
        sa.Column("nodes_reported", sa.Integer, nullable=False),
        sa.Column("suspicious", sa.Boolean, nullable=False),
        sa.Column("first_ended_at", sa.BigInteger, nullable=False),
        sa.Column("last_ended_at", sa.BigInteger, nullable=False),
        sa.Column("first_seen_at", sa.BigInteger, nullable=False),
        sa.Column("settled_at", sa.BigInteger),
        sa.Column("evidence_revision", sa.Integer, nullable=False),
        sa.Column("facts_revision", sa.Integer, nullable=False),
        sa.Column("judged_evidence", sa.Integer, nullable=False),
        sa.Column("judged_facts", sa.Integer, nullable=False),
        sa.Column("tried_at", sa.BigInteger),
        sa.Column("facts", sa.LargeBinary),
        sa.Column("facts_asked", sa.Integer, nullable=False),
        sa.Column("facts_closed", sa.Boolean, nullable=False),
        sa.Column("ask_at", sa.BigInteger),
        sa.Column("verdict_revision", sa.Integer, nullable=False),
        sa.Column("posted", sa.Integer, nullable=False),
        sa.Column("name", sa.Text),
        sa.Column("user", sa.Text),
        sa.Column("cause", sa.String(64)),
        sa.Column("title", sa.Text),
        sa.Column("confidence", sa.String(16)),
        sa.Column("rank", sa.Integer),
        sa.Column("host", sa.Text),
        sa.Column("look_at", sa.BigInteger),
        sa.Column("lease", sa.String(64)),
        sa.Column("lease_until", sa.BigInteger),
        sa.UniqueConstraint("cluster", "job", "incarnation"),
    )
    op.create_table(
        "evidence",
        sa.Column("key", KEY, primary_key=True),
        sa.Column("job_key", KEY, sa.ForeignKey("jobs.key"), nullable=False),
        sa.Column("record_id", sa.String(200), nullable=False, unique=True),
        sa.Column("node", sa.String(255), nullable=False),
        sa.Column("ended_at", sa.BigInteger, nullable=False),
        sa.Column("stored_at", sa.BigInteger, nullable=False),
        sa.Column("encoding", sa.String(16), nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "verdicts",
        sa.Column("key", KEY, primary_key=True),
        sa.Column("job_key", KEY, sa.ForeignKey("jobs.key"), nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("cause", sa.String(64), nullable=False),
        sa.Column("confidence", sa.String(16), nullable=False),
        sa.Column("fingerprint", sa.Text),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("job_key", "revision"),
    )
    op.create_table(
        "deliveries",
        sa.Column("key", KEY, primary_key=True),
        sa.Column("delivery_id", sa.String(64), nullable=False, unique=True),
        sa.Column("job_key", KEY, sa.ForeignKey("jobs.key"), nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("channel", sa.String(32), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("next_at", sa.BigInteger),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("sent_at", sa.BigInteger),
        sa.Column("error", sa.Text),
        sa.UniqueConstraint("job_key", "revision", "channel"),
    )
    op.create_index("jobs_look_at", "jobs", ["look_at"])
    op.create_index("jobs_ask_at", "jobs", ["ask_at"])
    op.create_index("jobs_last_ended_at", "jobs", ["last_ended_at", "key"])
    op.create_index("jobs_job", "jobs", ["job"])
    op.create_index("evidence_job_node", "evidence", ["job_key", "node"])
    op.create_index("deliveries_next_at", "deliveries", ["next_at"])


def downgrade() -> None:
    """Drops the tables."""
    op.drop_table("deliveries")
    op.drop_table("verdicts")
    op.drop_table("evidence")
    op.drop_table("jobs")
