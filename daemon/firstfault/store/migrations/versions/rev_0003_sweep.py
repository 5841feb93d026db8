"""How far has been looked for jobs of which no record came.

Revision 0003, after 0002.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the table."""
    op.create_table(
        "sweeps",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("began_at", sa.BigInteger, nullable=False),
        sa.Column("until_at", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    """Takes it away."""
    op.drop_table("sweeps")
