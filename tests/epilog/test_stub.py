"""The Epilog script: what slurmd runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from firstfault_epilog import entries
from tests.epilog.node import Node, end_job_in_a_run_of_its_own

SHELLS = [("/bin/dash",), ("/bin/bash", "--posix"), ("/bin/busybox", "sh")]
EVERY_BYTE = bytes(range(1, 256))


def entry(node: Node) -> entries.Entry:
    (path,) = node.waiting()
    return entries.parse(path.read_bytes(), path.stat().st_mtime_ns, path.name)


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: Path(shell[0]).name)
def test_values_come_back_exactly_whatever_the_user_wrote(
    node: Node, shell: tuple[str, ...]
) -> None:
    if not Path(shell[0]).exists():
        pytest.skip(f"{shell[0]} is not installed")
    hostile = {
        "SLURM_JOB_COMMENT": os.fsdecode(EVERY_BYTE),
        "SLURM_JOB_ACCOUNT": "'; touch /tmp/pwned; echo '$(id)`id`\n\nSLURM_JOB_UID=0\n",
        "SLURM_JOB_STDOUT": "-n %s %d \\0 \\c * ~ \"quoted\" 'single'",
        "CUDA_VISIBLE_DEVICES": "",
    }

    status = node.end_job_with(shell, hostile)

    assert status == 0
    found = entry(node)
    for name, value in hostile.items():
        assert found.environment[name.encode()] == os.fsencode(value)
    assert b"GPU_DEVICE_ORDINAL" not in found.environment


def test_variables_that_are_no_facts_of_the_job_are_not_noted(node: Node) -> None:
    node.end_job(SPANK_SECRET="token", AWS_SECRET_ACCESS_KEY="key", PATH="/bin")

    found = entry(node)

    assert all(name.startswith(b"SLURM") for name in found.environment)


def test_an_empty_environment_ends_well_and_leaves_an_entry(node: Node) -> None:
    status = subprocess.run([node.stub], env={"FIRSTFAULT_CONF": str(node.conf)}).returncode

    assert status == 0
    (path,) = node.waiting()
    assert path.name.startswith("none-none-")


def test_names_that_would_leave_the_queue_do_not(node: Node) -> None:
    node.end_job(SLURM_JOB_ID="../../x", SLURMD_NODENAME="../../../etc/cron.d/x")

    assert [path.name.rpartition("-")[0] for path in node.waiting()] == ["none-none"]


def test_the_switch_turns_everything_off(node: Node) -> None:
    (node.folder / "off").touch()

    status = node.end_job()

    assert status == 0
    assert not node.queue.exists()


@pytest.mark.parametrize("obstacle", ["a file", "a dangling link", "a missing disk"])
def test_a_queue_that_cannot_be_made_does_not_fail_the_epilog(node: Node, obstacle: str) -> None:
    if obstacle == "a file":
        node.queue.write_text("")
    elif obstacle == "a dangling link":
        node.queue.symlink_to("/nonexistent/place")
    else:
        node.configure(FIRSTFAULT_QUEUE="/proc/no/such/queue")

    assert node.end_job() == 0


def test_a_full_disk_leaves_nothing_that_is_taken_for_whole(node: Node) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts a small disk")
    node.queue.mkdir()
    mounted = subprocess.run(
        ["/bin/mount", "-t", "tmpfs", "-o", "size=64k", "none", node.queue], check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        status = node.end_job(SLURM_JOB_COMMENT="x" * 100_000)

        assert status == 0
        assert node.waiting() == []
    finally:
        subprocess.run(["/bin/umount", node.queue], check=True)


def test_a_damaged_configuration_does_not_fail_the_epilog(node: Node) -> None:
    node.conf.write_bytes(b"\xff\x00=\nFIRSTFAULT_QUEUE\n= \n$(touch /tmp/pwned)\n" + EVERY_BYTE)
    assert end_job_in_a_run_of_its_own(node) == 0
    node.conf.write_text(f"FIRSTFAULT_START=systemd\nFIRSTFAULT_QUEUE={node.queue}")

    status = node.end_job()

    assert status == 0
    assert len(node.waiting()) == 1


def test_several_nodes_of_one_machine_share_a_queue(node: Node) -> None:
    for name in ("n1", "n2", "n1"):
        node.end_job(SLURMD_NODENAME=name)

    assert [path.name.split("-")[1] for path in node.waiting()] == ["n1", "n1", "n2"]


def test_detached_the_collector_outlives_the_epilogs_process_group(node: Node) -> None:
    node.configure(FIRSTFAULT_START="detach")
    variables = node.environment() | {"FIRSTFAULT_CONF": str(node.conf)}
    # As slurmd: a group of its own, a pipe that is read to its end, then the group is killed.
    process = subprocess.Popen(
        [node.stub],
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0,
    )
    output, _ = process.communicate(timeout=10)
    try:
        os.killpg(process.pid, 9)
    except ProcessLookupError:
        group_was_alive = False
    else:
        group_was_alive = True

    assert (process.returncode, output, group_was_alive) == (0, b"", False)
    (record,) = node.wait_for_records(1)
    assert (record.job, record.node) == ("12", "n3")


def test_what_it_started_itself_never_notes_and_starts_anything_again(node: Node) -> None:
    node.configure(FIRSTFAULT_START="detach")

    status = node.end_job(FIRSTFAULT_DETACHED="1")

    assert status == 0
    assert not node.queue.exists()


def test_the_shell_checker_finds_nothing(node: Node) -> None:
    checker = shutil.which("shellcheck")
    if checker is None:
        pytest.skip("shellcheck is not installed")

    found = subprocess.run([checker, "--shell=dash", node.stub], capture_output=True, text=True)

    assert found.stdout == ""


def test_each_variable_is_noted_under_its_own_name(node: Node) -> None:
    """A slip of the pen among fifty alike lines would lose or mix up a fact."""
    lines = re.findall(r'^ +"\$\{(.*)\}"', node.stub.read_text(), re.MULTILINE)
    names = [line.partition("+")[0] for line in lines]

    assert lines == [f"{name}+{name}=${name}" for name in names]
    assert names == sorted(set(names))
    values = {name: f"value of {name}" for name in names}
    values |= {"SLURM_JOB_ID": "12", "SLURMD_NODENAME": "n3"}
    node.end_job_with((), values)
    assert entry(node).environment == {k.encode(): v.encode() for k, v in values.items()}
