"""`firstfault explain` as its user meets it: run as a program, judged by what it prints."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import zstandard

CASES = Path(__file__).parent.parent / "cases"
COMMAND = [sys.executable, "-m", "firstfault.cli"]
FAILING = (
    "[rank1]: Traceback (most recent call last):\n"
    '[rank1]:   File "/home/u/train.py", line 59, in main\n'
    "[rank1]: ValueError: bad shape\n"
)


def run(
    *arguments: str | Path,
    stdin: bytes = b"",
    cwd: Path | None = None,
    before: Sequence[str] = (),
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*before, *COMMAND, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
        cwd=cwd,
    )


def explain(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return run("explain", "--format", "json", *arguments, **options)


def cause(done: subprocess.CompletedProcess[bytes]) -> str:
    return str(json.loads(done.stdout)["cause"]["id"])


def complaint(done: subprocess.CompletedProcess[bytes]) -> str:
    """What a user is told of an input that cannot be read: one line, no stack."""
    text = done.stderr.decode()
    assert done.returncode == 2
    assert done.stdout == b""
    assert text.startswith("firstfault: ")
    assert text.count("\n") == 1
    return text


@pytest.fixture
def failing(tmp_path: Path) -> Path:
    path = tmp_path / "slurm.out"
    path.write_text(FAILING)
    return path


def test_help_names_every_command_and_what_each_does() -> None:
    done = run("--help")
    text = done.stdout.decode()

    assert done.returncode == 0
    for command in ("explain", "job", "serve", "check", "causes", "demo"):
        assert f"\n  {command} " in text


def test_explains_own_help_tells_its_exit_statuses() -> None:
    text = run("explain", "--help").stdout.decode()

    for said in (
        "--format",
        "--host NAME=PATH",
        "-o, --output",
        "Exit status: 0",
        "3 ",
        "4 ",
        "2 ",
    ):
        assert said in text


def test_an_unknown_command_is_bad_usage() -> None:
    done = run("explode")

    assert done.returncode == 2
    assert b"No such command" in done.stderr


def test_a_cause_is_exit_status_0(failing: Path) -> None:
    done = explain(failing)

    assert (done.returncode, cause(done)) == (0, "python.exception")
    assert done.stderr == b""


def test_a_job_that_succeeded_is_exit_status_3() -> None:
    done = explain(CASES / "success")

    assert (done.returncode, cause(done)) == (3, "none")


def test_an_unknown_cause_is_exit_status_4(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("srun: error: n1: task 0: Exited with exit code 1\n")

    done = explain(tmp_path)

    assert (done.returncode, cause(done)) == (4, "unknown")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--format", "xml", "a"],
        ["--host", "n1", "a"],
        ["--host", "=a"],
        ["--host", "n1="],
        ["--nope"],
    ],
)
def test_bad_usage_is_exit_status_2(arguments: list[str]) -> None:
    done = run("explain", *arguments)

    assert done.returncode == 2
    assert b"Error: " in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    said = complaint(explain(tmp_path / "gone"))

    assert f"{tmp_path}/gone: No such file or directory" in said


def test_a_loop_of_links_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    assert "a: Too many levels of symbolic links" in complaint(explain(tmp_path / "a"))


def test_a_folder_that_links_to_itself_is_searched_once(failing: Path) -> None:
    (failing.parent / "again").symlink_to(failing.parent)
    (failing.parent / "other.out").symlink_to(failing)
    os.link(failing, failing.parent / "hard.out")

    done = explain(failing.parent, failing, f"{failing.parent}/./slurm.out")

    assert done.returncode == 0
    verdict = json.loads(done.stdout)
    assert {each["file"].rpartition("/")[2] for each in verdict["evidence"]} == {"hard.out"}


@pytest.mark.parametrize("device", ["/dev/null", "/dev/zero"])
def test_a_device_is_no_log(device: str) -> None:
    assert f"{device}: neither a file nor a folder" in complaint(explain(device))


def test_an_empty_folder_tells_nothing_and_that_is_said(tmp_path: Path) -> None:
    done = explain(tmp_path)

    assert (done.returncode, cause(done)) == (4, "unknown")
    assert b"no logs there" in done.stderr


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["sh", "-c", f"sleep 0.3; printf '%s' \"$1\" > '{pipe}'", "-", FAILING]):
        done = explain(pipe)

    assert (done.returncode, cause(done)) == (0, "python.exception")


@pytest.mark.slow
def test_a_pipe_without_a_writer_is_given_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    assert "a pipe into which nobody wrote within 10 s" in complaint(explain(tmp_path / "pipe"))


def test_a_pipe_in_a_folder_is_passed_over(failing: Path) -> None:
    os.mkfifo(failing.parent / "pipe")

    assert explain(failing.parent).returncode == 0


def test_standard_input_is_read(tmp_path: Path) -> None:
    done = explain("-", stdin=FAILING.encode())

    assert (done.returncode, cause(done)) == (0, "python.exception")
    assert json.loads(done.stdout)["evidence"][0]["file"] == "-"


def test_closed_standard_input_hurts_only_who_names_it(failing: Path) -> None:
    program = " ".join(COMMAND)
    named = subprocess.run(
        ["sh", "-c", f"{program} explain {failing} <&-"],
        capture_output=True,
        timeout=60,
        check=False,
    )
    asked = subprocess.run(
        ["sh", "-c", f"{program} explain - <&-"], capture_output=True, timeout=60, check=False
    )

    assert named.returncode == 0
    assert asked.returncode == 2
    assert b"-: standard input is closed" in asked.stderr


def _twice(pack: Any) -> bytes:
    data = FAILING.encode()
    return bytes(pack(data[:70]) + pack(data[70:]))


PACKED = {
    "gzip": _twice(gzip.compress),
    "xz": _twice(lzma.compress),
    "zstd": _twice(zstandard.ZstdCompressor(write_checksum=True).compress),
}


@pytest.mark.parametrize("form", sorted(PACKED))
def test_compressed_logs_of_several_frames_are_read(tmp_path: Path, form: str) -> None:
    (tmp_path / "log").write_bytes(PACKED[form])

    assert cause(explain(tmp_path / "log")) == "python.exception"
    assert cause(explain("-", stdin=PACKED[form])) == "python.exception"


@pytest.mark.parametrize("form", sorted(PACKED))
def test_a_cut_compressed_log_is_named(tmp_path: Path, form: str) -> None:
    (tmp_path / "log").write_bytes(PACKED[form][:-5])

    said = complaint(explain(tmp_path / "log"))

    assert f"{tmp_path}/log: " in said
    assert "ends too early" in said


@pytest.mark.parametrize("form", sorted(PACKED))
def test_a_damaged_compressed_log_is_named(tmp_path: Path, form: str) -> None:
    data = bytearray(PACKED[form])
    data[12:40] = b"\xff" * 28
    (tmp_path / "log").write_bytes(data)

    assert f"{tmp_path}/log: " in complaint(explain(tmp_path / "log"))


def test_what_cannot_be_read_in_a_folder_is_a_warning(failing: Path) -> None:
    (failing.parent / "cut.gz").write_bytes(PACKED["gzip"][:-5])

    done = explain(failing.parent)

    assert done.returncode == 0
    assert b"cut.gz: " in done.stderr
    assert b"; left out\n" in done.stderr


# Root without the right to read everybody's files.
UNPRIVILEGED = [
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search",
]


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="needs root, to make files that it may not read, and setpriv",
)
def test_without_permission_a_named_path_is_an_error_and_another_a_warning(failing: Path) -> None:
    secret, closed = failing.parent / "secret.log", failing.parent / "closed"
    secret.write_text("x\n")
    secret.chmod(0o600)
    closed.mkdir(mode=0o700)
    for path in (secret, closed):
        os.chown(path, 65_534, 65_534)

    searched = explain(failing.parent, before=UNPRIVILEGED)

    assert "secret.log: Permission denied" in complaint(explain(secret, before=UNPRIVILEGED))
    assert "closed: Permission denied" in complaint(explain(closed, before=UNPRIVILEGED))
    assert searched.returncode == 0
    assert b"secret.log: Permission denied; left out" in searched.stderr
    assert b"closed: Permission denied; left out" in searched.stderr


def test_a_binary_file_is_passed_over_in_a_folder_and_refused_by_name(failing: Path) -> None:
    binary = failing.parent / "model.pt"
    binary.write_bytes(b"PK\x03\x04" + os.urandom(5_000))
    (failing.parent / "noise.bin").write_bytes(os.urandom(50_000))

    done = explain(failing.parent)

    assert (done.returncode, done.stderr) == (0, b"")
    assert "model.pt: a binary file, not a log" in complaint(explain(binary))


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text('{"schema": "firstfault.evidence/1", "id": 3}')

    assert "record.json: a damaged evidence record" in complaint(explain(tmp_path / "record.json"))


def test_a_named_host_is_the_host_of_its_files(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "out").write_text(FAILING)

    for arguments in (
        ["--host", "n7=logs"],
        ["--host", "n7=./logs/", "logs/out"],
        ["--host", "x=logs", "--host", f"n7={logs}/out"],
        ["--host", "n7=."],
    ):
        done = explain(*arguments, cwd=tmp_path)

        assert json.loads(done.stdout)["initiator"]["host"] == "n7", arguments


def test_the_paths_order_changes_no_byte() -> None:
    paths = sorted(
        str(path) for path in (CASES / "oom-4n").iterdir() if path.name != "expected.toml"
    )

    forward, backward = explain(*paths), explain(*reversed(paths), paths[0])

    assert forward.stdout == backward.stdout
    assert explain(*paths).stdout == forward.stdout


def test_the_verdict_may_go_into_a_file(failing: Path) -> None:
    report = failing.parent.parent / f"{failing.parent.name}.html"
    done = run("explain", "--format", "html", "-o", report, failing)

    assert (done.returncode, done.stdout) == (0, b"")
    assert report.read_text().startswith("<!doctype html>") or "<html" in report.read_text()
    report.unlink()


@pytest.mark.parametrize(
    ("target", "reason"), [("no/such/x", "No such file"), ("", "Is a directory")]
)
def test_a_file_that_cannot_be_written_is_named(failing: Path, target: str, reason: str) -> None:
    said = complaint(explain("-o", failing.parent / target, failing))

    assert f"cannot write {failing.parent / target}: {reason}" in said


def test_a_full_disk_behind_standard_output_is_said(failing: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, "explain", str(failing)],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )

    assert done.returncode == 2
    assert done.stderr == b"firstfault: cannot write to standard output: No space left on device\n"


def test_a_reader_that_has_seen_enough_makes_no_noise(failing: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)

    done = subprocess.run(
        [*COMMAND, "explain", str(failing)],
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(writing)

    assert (done.returncode, done.stderr) == (0, b"")


def test_an_interrupt_ends_it_without_a_stack(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "explain", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    wchan = Path(f"/proc/{process.pid}/syscall")
    deadline = time.monotonic() + 20
    while not wchan.read_text().startswith("0 0x0 ") and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)

    assert process.returncode != 0
    assert b"Traceback" not in said


def on_terminal(failing: Path, **env: str) -> bytes:
    """What stands on a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "explain", str(failing)],
        stdout=theirs,
        stderr=theirs,
        stdin=subprocess.DEVNULL,
        env={**{k: v for k, v in os.environ.items() if k != "NO_COLOR"}, "TERM": "xterm", **env},
    ):
        os.close(theirs)
        said = b""
        try:
            while part := os.read(ours, 65_536):
                said += part
        except OSError:
            pass  # the other side is closed: EIO
    os.close(ours)
    return said


def test_a_terminal_gets_colour_unless_it_is_refused(failing: Path) -> None:
    assert b"\x1b[" in on_terminal(failing)
    assert b"\x1b[" not in on_terminal(failing, NO_COLOR="1")
    assert b"\x1b[" not in run("explain", failing).stdout


def test_file_names_steer_no_terminal_and_break_no_json(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff\x1b[31m\nevil.log")
    (tmp_path / name).write_text(FAILING)
    (tmp_path / f"{name}.gz").write_bytes(PACKED["gzip"][:-5])

    done, said = explain(tmp_path), run("explain", tmp_path)

    assert (done.returncode, said.returncode) == (0, 0)
    assert "\\xff" in json.loads(done.stdout)["evidence"][0]["file"]
    assert b"\x1b" not in done.stderr + said.stderr + said.stdout


@pytest.mark.slow
def test_a_hundred_thousand_small_files_are_read_in_bounded_time_and_memory(tmp_path: Path) -> None:
    for rank in range(100_000):
        folder = tmp_path / f"{rank // 1_000}"
        if rank % 1_000 == 0:
            folder.mkdir()
        (folder / f"{rank}.log").write_text(f"[rank{rank}]: step 7 loss 0.5\n")
    (tmp_path / "slurm.out").write_text(FAILING)
    begun = time.monotonic()

    done = subprocess.run(
        [
            "sh",
            "-c",
            f"ulimit -v 1500000; exec {' '.join(COMMAND)} explain --format json {tmp_path}",
        ],
        capture_output=True,
        timeout=300,
        check=False,
    )

    assert (done.returncode, cause(done)) == (0, "python.exception")
    assert time.monotonic() - begun < 120
