"""Messages that are changed after they are posted, incidents of several jobs, and silences.

Revision 0004, after 0003.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Adds the tables."""
    op.create_table(
        "incidents",
        sa.Column("key", _KEY, primary_key=True),
        sa.Column("cluster", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("opened_at", sa.BigInteger, nullable=False),
        sa.Column("last_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("acknowledged_at", sa.BigInteger),
        sa.Column("acknowledged_by", sa.Text),
    )
    op.create_index("incidents_ended_at", "incidents", ["ended_at"])
    op.create_index("incidents_last_at", "incidents", ["last_at"])
    op.create_table(
        "incident_jobs",
        sa.Column("key", _KEY, primary_key=True),
        sa.Column("incident_key", _KEY, sa.ForeignKey("incidents.key"), nullable=False),
        sa.Column("job_key", _KEY, sa.ForeignKey("jobs.key"), nullable=False, unique=True),
    )
    op.create_index("incident_jobs_incident", "incident_jobs", ["incident_key"])
    op.create_table(
        "silences",
        sa.Column("key", _KEY, primary_key=True),
        sa.Column("cluster", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
        sa.Column("said_by", sa.Text, nullable=False),
        sa.Column("reservation", sa.String(255), nullable=False),
        sa.UniqueConstraint("cluster", "kind", "name", "reservation"),
    )
    op.create_index("silences_until", "silences", ["until"])
    op.create_table(
        "signs",
        sa.Column("key", _KEY, primary_key=True),
        sa.Column("job_key", _KEY, sa.ForeignKey("jobs.key"), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("job_key", "kind", "name"),
    )
    op.create_index("signs_at", "signs", ["at"])
    op.create_table(
        "messages",
        sa.Column("key", _KEY, primary_key=True),
        sa.Column("message_id", sa.String(64), nullable=False, unique=True),
        sa.Column("channel", sa.String(32), nullable=False),
        sa.Column("conversation", sa.String(64), nullable=False),
        sa.Column("subject", sa.String(200), nullable=False),
        sa.Column("array", sa.String(120)),
        sa.Column("incident_key", _KEY, sa.ForeignKey("incidents.key")),
        sa.Column("ts", sa.String(32)),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("joined_at", sa.BigInteger, nullable=False),
        sa.Column("shown_at", sa.BigInteger),
        sa.Column("next_at", sa.BigInteger),
        sa.Column("wanted", sa.Integer, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("error", sa.Text),
    )
    op.create_index("messages_next_at", "messages", ["next_at"])
    op.create_index("messages_conversation", "messages", ["channel", "conversation", "joined_at"])
    op.create_index("messages_incident", "messages", ["incident_key"])
    op.create_table(
        "message_jobs",
        sa.Column("key", _KEY, primary_key=True),
        sa.Column("message_key", _KEY, sa.ForeignKey("messages.key"), nullable=False),
        sa.Column("job_key", _KEY, sa.ForeignKey("jobs.key"), nullable=False),
        sa.Column("channel", sa.String(32), nullable=False),
        sa.UniqueConstraint("job_key", "channel"),
    )
    op.create_index("message_jobs_message", "message_jobs", ["message_key"])


def downgrade() -> None:
    """Takes them away."""
    for table in ("message_jobs", "messages", "signs", "silences", "incident_jobs", "incidents"):
        op.drop_table(table)
