"""Fixtures that several of these tests use."""

from tests.intake.munged import munged

__all__ = ["munged"]
