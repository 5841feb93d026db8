"""The demonstration: the recording is whole, and goes through the real program."""

from __future__ import annotations

import contextlib
import html
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from firstfault import demo
from firstfault.slurm.sacct import Sacct
from firstfault_epilog import entries

RECORDING = resources.files("firstfault") / "recorded" / demo.RECORDING


@pytest.fixture
def facts() -> dict[str, object]:
    loaded: dict[str, object] = json.loads((RECORDING / "meta.json").read_text("utf-8"))
    return loaded


@pytest.fixture
def kept() -> Iterator[Path]:
    """Where the demonstration leaves things. Root's lies where the job's owner can get."""
    with tempfile.TemporaryDirectory(prefix="firstfault-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def stage(tmp_path: Path) -> demo.Stage:
    return demo.Stage(tmp_path)


def test_the_queue_is_what_the_epilog_would_have_written(
    stage: demo.Stage, facts: dict[str, object]
) -> None:
    demo.lay_out(stage, RECORDING, facts, demo.Owner(os.getuid(), os.getgid()))
    noted = [entries.read(str(path)) for path in (stage.folder / "queue/ready").iterdir()]
    epilogs = facts["epilog_at"]
    assert isinstance(epilogs, dict)

    assert {entry.value("SLURMD_NODENAME") for entry in noted} == {"n1", "n2", "n3", "n4"}
    assert {entry.value("SLURM_JOB_ID") for entry in noted} == {facts["job"]}
    assert {entry.value("SLURM_JOB_UID") for entry in noted} == {str(os.getuid())}
    assert {entry.value("SLURM_JOB_WORK_DIR") for entry in noted} == {str(stage.work_dir)}
    assert all(
        abs(entry.ended_at_s - epilogs[entry.value("SLURMD_NODENAME")]) < 0.001 for entry in noted
    )


def test_the_recorded_accounting_answers_as_sacct_does(
    stage: demo.Stage, facts: dict[str, object]
) -> None:
    demo.lay_out(stage, RECORDING, facts, demo.Owner(os.getuid(), os.getgid()))
    demo.write_config(stage, 0)
    job = str(facts["job"])
    (found,) = Sacct(stage.folder / "sacct", 10.0).facts([job])[job]

    assert (found.state, found.nodes, found.user) == ("FAILED", "n[1-4]", "alice")
    assert {step.id for step in found.steps} == {"batch", "extern", "0"}


def test_the_recording_tells_nothing_of_the_machine_that_made_it() -> None:
    def texts(folder: Path) -> list[str]:
        return [path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()]

    with resources.as_file(RECORDING) as folder:
        found = texts(folder)

    assert len(found) > 20
    assert not [text for text in found if re.search(r"/tmp/|/root/|firstfault-cluster", text)]


@pytest.mark.slow
def test_the_demonstration_names_the_rank_that_was_killed(
    kept: Path, facts: dict[str, object]
) -> None:
    truth = facts["truth"]
    assert isinstance(truth, dict)
    done = subprocess.run(
        [sys.executable, "-m", "firstfault", "demo", "--folder", str(kept)],
        cwd=kept,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    verdict = json.loads((kept / "verdict.json").read_text())
    page = html.unescape((kept / "report.html").read_text())
    printed = " ".join(done.stdout.split())

    assert verdict["cause"]["id"] == truth["cause"]
    assert verdict["cause"]["confidence"] == "confirmed"
    assert verdict["initiator"]["rank"] == truth["rank"]
    assert verdict["initiator"]["host"] == truth["host"]
    assert verdict["job"]["state"] == "FAILED"
    for said in (verdict["cause"]["title"], truth["host"]):
        assert said in page
        assert said in printed
    assert str(kept / "report.html") in done.stderr


@pytest.mark.slow
def test_on_a_terminal_the_page_is_served_until_ctrl_c(kept: Path) -> None:
    master, terminal = os.openpty()
    running = subprocess.Popen(
        # Whoever runs the tests in the background may have had SIGINT ignored for them.
        [
            *("/usr/bin/env", "--default-signal=INT"),
            *(sys.executable, "-m", "firstfault", "demo", "--folder", str(kept)),
        ],
        stdin=terminal,
        stdout=terminal,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    # what the terminal shows is read away, or the program would wait for a full terminal
    threading.Thread(target=_read_away, args=(master,), daemon=True).start()
    try:
        assert running.stderr is not None
        address = None
        for line in running.stderr:
            address = re.search(r"served at (http://127\.0\.0\.1:\d+/)", line)
            if address is not None:
                break
        assert address is not None, "the demonstration ended without serving the page"
        with urllib.request.urlopen(address[1], timeout=10) as answer:
            served = answer.read().decode()
        running.send_signal(2)
        status = running.wait(timeout=20)
    finally:
        running.kill()
        running.communicate()
        os.close(master)
        os.close(terminal)

    assert "49513000" in served
    assert status == 0


def _read_away(terminal: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(terminal, 4096):
            pass
