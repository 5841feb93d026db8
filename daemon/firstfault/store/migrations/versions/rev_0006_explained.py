"""Reports of logs that readers sent, and wished to be kept.

Revision 0006, after 0005.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Adds the table."""
    op.create_table(
        "explained",
        sa.Column("key", _KEY, primary_key=True),
        sa.Column("id", sa.String(32), nullable=False, unique=True),
        sa.Column("owner", sa.String(300), nullable=False),
        sa.Column("kept_by", sa.Text, nullable=False),
        sa.Column("kept_at", sa.BigInteger, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("cause", sa.String(64), nullable=False),
        sa.Column("confidence", sa.String(16), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_index("explained_owner", "explained", ["owner", "kept_at", "id"])
    op.create_index("explained_kept_at", "explained", ["kept_at"])


def downgrade() -> None:
    """Takes it away."""
    op.drop_table("explained")
