"""The watch wakes the intake; it is never needed."""

from __future__ import annotations

import threading
from pathlib import Path

from firstfault.intake import watch
from tests.intake.records import fields, put


def test_a_record_that_is_renamed_into_place_wakes_the_intake(tmp_path: Path) -> None:
    woken = threading.Event()

    with watch.watching(tmp_path, woken.set):
        put(tmp_path, fields())

        assert woken.wait(5)
