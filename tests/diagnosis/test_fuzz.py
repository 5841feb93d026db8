"""No reader raises, or is slow, on damaged and invented input."""

from __future__ import annotations

import pytest

from tests.diagnosis.fuzz import READERS, failures


@pytest.mark.parametrize("reader", sorted(READERS))
def test_a_reader_bears_whatever_it_is_given(reader: str) -> None:
    assert list(failures(400, 7, (reader,))) == []
