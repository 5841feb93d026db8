"""The daemon's clock is set back and forward while it works (libfaketime: Debian's faketime)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.app.processes import Daemon
from tests.crash import stream
from tests.crash.site import Site, Told, is_told_once_and_right
from tests.fakes.slack import SlackServer

pytestmark = pytest.mark.slow

LIBRARIES = list(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))


class FakeClock:
    """What programs that are started while it is in the environment take for the time."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        if not LIBRARIES:
            pytest.skip("libfaketime is not installed (Debian: faketime)")
        self._file = folder / "offset"
        self.step(0)
        monkeypatch.setenv("LD_PRELOAD", str(LIBRARIES[0]))
        monkeypatch.setenv("FAKETIME_TIMESTAMP_FILE", str(self._file))
        monkeypatch.setenv("FAKETIME_NO_CACHE", "1")
        monkeypatch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")

    def step(self, seconds: int) -> None:
        """How much it is ahead of the true time from now on."""
        draft = self._file.with_name("offset.new")
        draft.write_text(f"{seconds:+d}\n")
        draft.replace(self._file)


@pytest.mark.parametrize("step_s", [-3600, 3600])
def test_a_step_of_the_clock_delays_and_loses_nothing(
    tmp_path: Path,
    slack: SlackServer,
    undisturbed: dict[str, tuple[str, Told]],
    monkeypatch: pytest.MonkeyPatch,
    step_s: int,
) -> None:
    clock = FakeClock(tmp_path, monkeypatch)
    site = Site(tmp_path, f"sqlite:///{tmp_path}/ff.db", slack)
    known = stream.jobs(len(stream.RECORDED))
    site.expect(known)
    with Daemon(site.config) as daemon:
        monkeypatch.undo()
        daemon.wait_for("event=started")
        site.put(known[::2])
        daemon.wait_for("event=judged")
        # Half of these are in hand: judged and not sent, waited for, to be asked about.
        clock.step(step_s)
        site.put(known[1::2])

        begun = time.monotonic()
        site.come_to_rest(daemon, 180)
        assert daemon.stop() == 0

    print(f"\nat rest {time.monotonic() - begun:.0f} s after a step of {step_s} s")
    is_told_once_and_right(site, known, undisturbed)
    assert ("event=clock-set-back" in site.log()) is (step_s < 0)
