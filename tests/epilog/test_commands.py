"""The script's commands: collect, which turns itself off after failures, and --check."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from firstfault_epilog import entries
from tests.epilog.node import Node, run_script, set_time

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def fake_python(node: Node, name: str, body: str) -> Path:
    path = node.folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_collect_takes_the_queue(node: Node) -> None:
    node.end_job()

    done = run_script(node, "collect")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(node.records()) == 1
    assert node.waiting() == []


def test_while_one_collects_no_other_python_is_started(node: Node) -> None:
    started = node.folder / "started"
    python = fake_python(node, "python", f'echo x >>{started}; exec {sys.executable} "$@"')
    node.configure(FIRSTFAULT_PYTHON=str(python))
    node.end_job()
    node.collect()
    node.end_job(SLURM_JOB_ID="13")
    handle = entries.lock(str(node.queue))
    assert handle is not None

    busy = run_script(node, "collect")
    was_started = started.exists()
    os.close(handle)
    free = run_script(node, "collect")

    assert (busy.returncode, busy.stderr, was_started) == (0, "", False)
    assert free.returncode == 0
    assert [record.job for record in node.records()] == ["12", "13"]


@pytest.mark.parametrize(
    "body",
    ["exit 1", "exit 2", "echo Unknown option: -I >&2; exit 2", "kill -9 $$"],
    ids=["3.5 or older", "Python 2", "Python 2 that speaks", "broken"],
)
def test_another_python_is_tried_where_the_configured_one_will_not_do(
    node: Node, body: str
) -> None:
    node.configure(FIRSTFAULT_PYTHON=str(fake_python(node, "old", body)))
    node.end_job()

    done = run_script(node, "collect")

    assert (done.returncode, done.stderr) == (0, "")
    assert len(node.records()) == 1


def test_another_python_is_tried_where_the_configured_one_is_missing(node: Node) -> None:
    node.configure(FIRSTFAULT_PYTHON="/nonexistent/python3", FIRSTFAULT_START="detach")

    node.end_job()

    assert len(node.wait_for_records(1)) == 1


@pytest.mark.parametrize(
    "python", sorted(Path("/root/.pyenv/versions").glob("2.7*/bin/python2.7")), ids=str
)
def test_a_real_python_2_is_passed_over(node: Node, python: Path) -> None:
    node.configure(FIRSTFAULT_PYTHON=str(python))
    node.end_job()

    done = run_script(node, "collect")

    assert (done.returncode, done.stderr) == (0, "")
    assert len(node.records()) == 1


def fail(node: Node, times: int) -> list[subprocess.CompletedProcess[str]]:
    """Runs ``collect``, each time as if two minutes had passed since."""
    done = []
    for _ in range(times):
        if (node.queue / "failures").exists():
            set_time(node.queue / "failures", time.time() - 120)
        done.append(run_script(node, "collect"))
    return done


def break_archive(node: Node) -> Path:
    broken = node.folder / "broken.pyz"
    broken.write_bytes(node.pyz.read_bytes()[:5000])
    node.configure(FIRSTFAULT_PYZ=str(broken))
    return broken


def test_after_five_failures_of_its_own_it_is_off_for_an_hour_and_says_why(node: Node) -> None:
    break_archive(node)
    node.end_job()
    (entry,) = node.waiting()

    *others, fifth = fail(node, 5)

    assert 0 not in {done.returncode for done in others}
    assert not any("turned off" in done.stderr for done in others)
    assert "turned off for an hour after 5 failures" in fifth.stderr
    assert f"remove {node.queue}/off" in fifth.stderr
    off = (node.queue / "off").read_text()
    assert off.startswith(time.strftime("%Y-%m-%dT")) and "ended with status 1" in off
    # Nothing waits where systemd would start it again; nothing is lost.
    assert node.waiting() == []
    assert [path.name for path in node.waiting("new") if path.suffix != ".dropped"] == [entry.name]


def turn_off(node: Node) -> None:
    broken = break_archive(node)
    node.end_job()
    fail(node, 5)
    broken.unlink()
    node.configure()


def test_while_it_is_off_the_epilog_notes_nothing_and_counts(node: Node) -> None:
    turn_off(node)

    status = node.end_job()
    done = run_script(node, "collect")

    assert (status, done.returncode) == (0, 0)
    assert "turned off at" in done.stderr
    assert node.records() == []
    assert entries.dropped(str(node.queue)) == 1


def test_after_the_hour_it_is_on_again_and_what_waited_is_collected(node: Node) -> None:
    turn_off(node)
    node.end_job()
    set_time(node.queue / "off", time.time() - 3700)
    for path in node.waiting("new"):
        set_time(path, time.time() - 3700)

    status = node.end_job(SLURM_JOB_ID="13")
    done = run_script(node, "collect")

    assert (status, done.returncode) == (0, 0)
    assert [record.job for record in node.records()] == ["12", "13"]
    assert any("1 earlier ends of jobs were not noted" in n for n in node.records()[0].notes)
    assert not (node.queue / "off").exists()


def test_removing_the_file_turns_it_on_again_at_once(node: Node) -> None:
    turn_off(node)
    (node.queue / "off").unlink()

    node.end_job(SLURM_JOB_ID="13")
    run_script(node, "collect")

    assert "13" in [record.job for record in node.records()]


def test_failures_that_are_not_in_a_row_do_not_turn_it_off(node: Node) -> None:
    for _ in range(3):
        break_archive(node)
        node.end_job()
        fail(node, 4)
        node.configure()
        assert run_script(node, "collect").returncode == 0

    assert not (node.queue / "off").exists()
    assert len(node.records()) == 3


def test_many_failures_at_one_moment_count_as_one(node: Node) -> None:
    break_archive(node)
    node.end_job()

    for _ in range(8):
        run_script(node, "collect")

    assert entries.failures(str(node.queue)) == ("the collector ended with status 1",)
    assert not (node.queue / "off").exists()


def test_a_spool_that_is_missing_for_long_is_no_failure_of_its_own(node: Node) -> None:
    node.spool.rmdir()
    node.end_job()

    statuses = {done.returncode for done in fail(node, 8)}

    assert statuses == {75}
    assert not (node.queue / "off").exists()


def test_a_collector_that_is_killed_each_time_turns_itself_off(node: Node) -> None:
    # Passes the question for its version; then as if the limit on memory had killed it.
    body = "case $* in *' -c '*) exit 0 ;; esac; kill -9 $$"
    node.configure(FIRSTFAULT_PYTHON=str(fake_python(node, "killed", body)))
    node.end_job()

    statuses = {done.returncode for done in fail(node, 5)}

    assert statuses == {137}
    assert "status 137" in (node.queue / "off").read_text()


def test_without_any_python_it_says_so_and_turns_itself_off(node: Node) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: hides the node's Python")
    folder = node.folder / "no-python"
    folder.mkdir()
    node.configure(FIRSTFAULT_PYTHON="/nonexistent")
    node.end_job()
    hide = 'for p in /usr/bin/python3* /usr/local/bin/python3*; do [ -f "$p" ] &&'
    hide += ' mount --bind /dev/null "$(readlink -f "$p")"; done; for i in 1 2 3 4 5; do "$@";'
    hide += f" touch -d '-2 minutes' {node.queue}/failures; done"

    done = subprocess.run(
        ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", hide, "sh", node.stub, "collect"],
        env={"FIRSTFAULT_CONF": str(node.conf), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.stderr.count("no Python 3.6 or later was found") >= 5
    assert "no Python 3.6" in (node.queue / "off").read_text()


def test_started_by_systemd_it_rests_after_a_failure(node: Node) -> None:
    node.spool.rmdir()
    node.end_job()
    begun = time.monotonic()

    run_script(node, "collect", FIRSTFAULT_PAUSE_S="1")

    assert time.monotonic() - begun >= 1.0


def test_with_the_switch_off_collect_does_nothing_and_nothing_starts_it_again(node: Node) -> None:
    node.end_job()
    (node.folder / "off").touch()

    done = run_script(node, "collect")

    assert done.returncode == 0
    assert "turns everything off" in done.stderr
    assert node.waiting() == []
    assert node.records() == []
    assert len(node.waiting("new")) == 1


def test_collect_refuses_a_queue_that_others_may_write_to(node: Node) -> None:
    node.end_job()
    node.queue.chmod(0o777)

    done = run_script(node, "collect")

    assert done.returncode == 75
    assert "chmod 700" in done.stderr
    assert node.records() == []


def test_check_tells_of_failures_and_of_what_was_not_noted(node: Node) -> None:
    broken = break_archive(node)
    node.end_job()
    run_script(node, "collect")
    broken.unlink()
    node.configure()
    assert (
        "1 failures since its last record: the collector ended"
        in run_script(node, "--check").stdout
    )
    run_script(node, "collect")
    turn_off(node)

    done = run_script(node, "--check")

    assert done.returncode == 1
    assert "turned itself off for an hour at 20" in done.stdout
    assert f"remove {node.queue}/off" in done.stdout


def test_version_is_told(node: Node) -> None:
    done = run_script(node, "--version")

    assert (done.returncode, done.stdout.split()[0]) == (0, "firstfault-epilog")
