"""Heterogeneous jobs, retention, incidents of nodes, and who may use the schema.

Revision 0002, after 0001. Rows of before stay as they are: what is new may be NULL. A program of
revision 0001 refuses a schema that it does not know; later ones read ``compatibility``.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Adds columns, indexes and tables."""
    op.add_column("jobs", sa.Column("components", sa.Integer))
    op.add_column("jobs", sa.Column("emptied_at", sa.BigInteger))
    op.add_column("evidence", sa.Column("component", sa.String(32)))
    op.add_column("evidence", sa.Column("packed_size", sa.Integer))
    op.execute("UPDATE evidence SET packed_size = length(body)")
    op.create_index("jobs_first_seen_at", "jobs", ["first_seen_at"])
    op.create_index("jobs_state", "jobs", ["state"])
    op.create_index("evidence_stored_at", "evidence", ["stored_at", "job_key", "packed_size"])
    op.create_index("deliveries_due", "deliveries", ["channel", "state", "next_at"])
    op.create_table(
        "node_incidents",
        sa.Column("key", KEY, primary_key=True),
        sa.Column("job_key", KEY, sa.ForeignKey("jobs.key"), nullable=False),
        sa.Column("node", sa.String(255), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("cause", sa.String(64), nullable=False),
        sa.Column("domain", sa.String(16), nullable=False),
        sa.Column("confidence", sa.String(16), nullable=False),
        sa.UniqueConstraint("job_key", "node"),
    )
    op.create_index("node_incidents_node", "node_incidents", ["node", "at"])
    op.create_index("node_incidents_at", "node_incidents", ["at"])
    compatibility = op.create_table(
        "compatibility",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("oldest_program", sa.String(32), nullable=False),
    )
    op.bulk_insert(compatibility, [{"key": 1, "oldest_program": revision}])


def downgrade() -> None:
    """Takes away what `upgrade` added."""
    op.drop_table("compatibility")
    op.drop_table("node_incidents")
    op.drop_index("deliveries_due", "deliveries")
    op.drop_index("evidence_stored_at", "evidence")
    op.drop_index("jobs_state", "jobs")
    op.drop_index("jobs_first_seen_at", "jobs")
    op.drop_column("evidence", "packed_size")
    op.drop_column("evidence", "component")
    op.drop_column("jobs", "emptied_at")
    op.drop_column("jobs", "components")
