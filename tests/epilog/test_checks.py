"""firstfault-epilog --check: whether a node is set up, and what a job's record would hold."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import time

import pytest

from tests.epilog.node import Node, oom_block, run_script

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@needs_root
def test_check_tells_that_all_is_in_order(node: Node) -> None:
    node.configure(FIRSTFAULT_START="detach", FIRSTFAULT_PYTHON=sys.executable)
    node.kmsg.write_text("6,1,1,-;booted\n")

    done = run_script(node, "--check")

    assert (done.returncode, done.stderr) == (0, "")
    assert all(line.startswith("ok") for line in done.stdout.splitlines())


def test_check_without_the_archive_says_what_is_missing(node: Node) -> None:
    node.configure(FIRSTFAULT_PYZ="/nonexistent.pyz")

    done = run_script(node, "--check")

    assert done.returncode == 127
    assert "/nonexistent.pyz cannot be read" in done.stderr


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("Epilog={stub}\n", ["ok   slurm.conf", "runs {stub}"]),
        ("epilog = {folder}/epilog.d/*\n", ["ok   slurm.conf", "zz-firstfault"]),
        ("Epilog={folder}/other\n", ["no Epilog= line runs firstfault-epilog"]),
        ("Epilog={folder}/none.d/*\n", ["matches no file, which drains the node"]),
        ("Epilog={folder}/bad.d/*\n", ["README: it cannot be run, which drains", "runs {folder}"]),
        ("include other.conf\n", ["includes other files"]),
    ],
)
def test_check_reads_the_epilog_lines_of_slurm_conf(
    node: Node, lines: str, words: list[str]
) -> None:
    for name in ("epilog.d", "bad.d"):
        (node.folder / name).mkdir()
        (node.folder / name / "zz-firstfault").symlink_to(node.stub)
    (node.folder / "bad.d" / "README").write_text("about these scripts")
    (node.folder / "other").write_text("#!/bin/sh\n")
    (node.folder / "other").chmod(0o755)
    names = {"stub": str(node.stub), "folder": str(node.folder)}
    conf = node.folder / "slurm.conf"
    conf.write_text("ClusterName=x # Epilog=/nowhere\n" + lines.format(**names))
    unreadable = "bad.d" in lines and os.geteuid() == 0

    done = run_script(node, "--check", SLURM_CONF=str(conf))

    for word in words:
        # root may read a file that is not executable, and may not run it either.
        assert word.format(**names) in done.stdout, (done.stdout, unreadable)


def test_check_of_a_job_that_waits_tells_what_its_record_would_hold(node: Node) -> None:
    (node.folder / "slurm-12.out").write_bytes(b"step\n" * 50_000 + b"CUDA error: x\n")
    node.kmsg.write_text(oom_block(12, 4711, 1, 5_000_000))
    node.end_job()
    before = node.waiting()

    done = run_script(node, "--check", "12")

    assert (done.returncode, done.stderr) == (0, "")
    assert f"job 12 on n3, from {before[0]}" in done.stdout
    assert f"job-output  {node.folder}/slurm-12.out: " in done.stdout
    assert " of 250014 bytes" in done.stdout
    assert "rank-log" in done.stdout and "(absent: no run folder" in done.stdout
    assert node.waiting() == before
    assert node.records() == []


@needs_root
def test_check_of_a_job_that_runs_reads_as_its_owner_whatever_its_environment_says(
    node: Node, owner: pwd.struct_passwd
) -> None:
    work = node.folder / "work"
    work.mkdir()
    os.chown(work, owner.pw_uid, owner.pw_gid)
    secret = node.folder / "secret.out"
    secret.write_text("root alone may read this")
    secret.chmod(0o600)
    variables = {
        "SLURM_JOB_ID": "77",
        "SLURM_JOB_UID": "0",
        "SLURM_JOB_GID": "0",
        "SLURM_JOB_STDERR": str(secret),
        "SLURM_SUBMIT_DIR": str(work),
        "SLURMD_NODENAME": "n\x1b[31m3",
    }
    output = work / "out-100%j.txt"
    script = f"exec >'{output}'; echo here; exec /bin/sleep 60"
    job = subprocess.Popen(
        ["/bin/sh", "-c", script],
        env=variables,
        user=owner.pw_uid,
        group=owner.pw_gid,
        extra_groups=[],
    )
    try:
        stop_at = time.monotonic() + 10
        while not (output.exists() and output.read_text()):
            assert time.monotonic() < stop_at
            time.sleep(0.01)

        done = run_script(node, "--check", "77")
    finally:
        job.kill()
        job.wait()

    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert f"job-output  {output}: whole" in done.stdout
    assert f"{secret}: none (EACCES" in done.stdout


def test_check_of_a_job_that_is_not_known_says_so(node: Node) -> None:
    done = run_script(node, "--check", "99")

    assert done.returncode == 1
    assert "holds no end of it" in done.stdout
