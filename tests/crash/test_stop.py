"""SIGTERM under load: it ends soon, whatever hangs, and the next one does the rest."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.crash import stream
from tests.crash.daemons import Forked
from tests.crash.site import Site, Told, is_told_once_and_right
from tests.fakes.slack import SlackServer

pytestmark = pytest.mark.slow


def test_a_loaded_daemon_whose_receiver_and_sacct_hang_ends_within_five_seconds(
    tmp_path: Path,
    store_url: str,
    slack: SlackServer,
    undisturbed: dict[str, tuple[str, Told]],
) -> None:
    site = Site(tmp_path, store_url, slack, slack={"timeout_s": 25.0})
    known = stream.jobs(60)
    site.expect(known)
    site.sacct.behave("hang")
    slack.hang(1)
    site.put(known)
    with Forked(site.config) as daemon:
        daemon.wait_for("event=judged")
        while not site.sacct.asked() or not slack.refused:
            time.sleep(0.05)
        begun = time.monotonic()
        os.kill(daemon.pid, signal.SIGTERM)
        status = daemon.end()
        took_s = time.monotonic() - begun
    site.sacct.behave("ok")
    site.free_leases()
    site.finish(300)

    slack.refused.clear()
    is_told_once_and_right(site, known, undisturbed)
    assert status == 0
    assert took_s < 5
