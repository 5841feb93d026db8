"""One machine with its own systemd for all tests here."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.systemd import machine as machines
from tests.systemd.machine import Machine


@pytest.fixture(scope="package")
def machine() -> Iterator[Machine]:
    """The running machine, with this clone in /srv/firstfault."""
    reason = machines.missing()
    if reason is not None:
        if os.environ.get("FIRSTFAULT_REQUIRE_CLUSTER") == "1":
            pytest.fail(f"FIRSTFAULT_REQUIRE_CLUSTER=1, and {reason}", pytrace=False)
        pytest.skip(reason)
    with machines.booted() as running:
        yield running
