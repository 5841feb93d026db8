"""From the Epilog to the record, with the real script and the real archive."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from firstfault.model import evidence
from tests.epilog.conftest import ROOT
from tests.epilog.node import (
    OOM_AT_S,
    RECORDED_OFFSET_S,
    Node,
    end_job_at,
    file_of,
    oom_block,
    write_ranks,
)


def test_the_jobs_oom_kill_its_output_and_its_ranks_are_in_the_record(node: Node) -> None:
    kmsg = "6,1,100,-;eth0: up\n" + oom_block(12, 11744, 519, int(OOM_AT_S * 1e6))
    node.kmsg.write_text(kmsg)
    output = b"3: step 0 loss 1.0\n2: Traceback (most recent call last):\n"
    (node.folder / "slurm-12.out").write_bytes(output)
    ranks = {"0/stderr.log": b"", "0/stdout.log": b"step 0\n", "1/error.json": b'{"message": 1}'}
    write_ranks(node.folder / "ranks", "12_abcd1234", ranks)
    end_job_at(node, RECORDED_OFFSET_S + OOM_AT_S + 2)

    done = node.collect()

    assert (done.returncode, done.stderr) == (0, "")
    (record,) = node.records()
    assert (record.cluster, record.job, record.node) == ("testcluster", "12", "n3")
    assert record.clock is not None and record.clock.kernel_offset_s == RECORDED_OFFSET_S
    assert record.ended_at.timestamp() == pytest.approx(RECORDED_OFFSET_S + OOM_AT_S + 2, abs=1e-3)
    assert file_of(record, ":" + str(node.kmsg)) == kmsg.split("\n", 1)[1].encode()
    assert file_of(record, "slurm-12.out") == output
    assert file_of(record, "attempt_0/0/stdout.log") == b"step 0\n"
    assert file_of(record, "attempt_0/1/error.json") == b'{"message": 1}'
    assert {file.what for file in record.files} == {
        "kernel",
        "job-output",
        "rank-log",
        "error-json",
    }
    assert node.waiting() == node.waiting("claimed") == []


def test_kernel_lines_stand_where_the_record_says(node: Node) -> None:
    lines = "".join(f"6,{n},{n * 1000000},-;eth0: link is fine\n" for n in range(50))
    kmsg = lines + oom_block(12, 77, 50, 50_000_000) + "6,99,51000000,-;eth0: fine\n" * 9
    node.kmsg.write_text(kmsg)
    end_job_at(node, RECORDED_OFFSET_S + 55)

    node.collect()

    (record,) = node.records()
    (kernel,) = [file for file in record.files if file.what == "kernel"]
    (excerpt,) = kernel.excerpts
    assert excerpt.text is not None
    assert kmsg.encode()[excerpt.offset :].startswith(excerpt.text.encode())
    assert excerpt.line == 51
    assert not kernel.complete


def test_a_fault_outside_the_jobs_window_is_left_out(node: Node) -> None:
    early, inside, late = (
        oom_block(12, pid, pid, seconds * 1000000)
        for pid, seconds in ((100, 1000), (200, 2000), (300, 3000))
    )
    node.kmsg.write_text(early + inside + late)
    started = str(int(RECORDED_OFFSET_S) + 1900)
    end_job_at(node, RECORDED_OFFSET_S + 2001, SLURM_JOB_START_TIME=started)

    node.collect()

    (record,) = node.records()
    assert file_of(record, "kmsg") == inside.encode()
    assert record.notes == ()


def test_other_jobs_faults_in_the_window_are_kept_for_the_daemon_to_tell(node: Node) -> None:
    both = oom_block(12, 100, 100, 1000 * 1000000) + oom_block(13, 200, 200, 1001 * 1000000)
    node.kmsg.write_text(both)
    end_job_at(node, RECORDED_OFFSET_S + 1002)

    node.collect()

    assert file_of(node.records()[0], "kmsg") == both.encode()


def test_lines_that_programs_wrote_to_the_kernel_log_keep_their_prefix(node: Node) -> None:
    xid = "14,7,5000000,-;NVRM: Xid (PCI:0000:9b:00): 79, pid=1, name=x, GPU has fallen off\n"
    node.kmsg.write_text(xid)
    end_job_at(node, RECORDED_OFFSET_S + 6)

    node.collect()

    assert file_of(node.records()[0], "kmsg") == xid.encode()


HOSTILE_BYTES = [
    b"\xff\xfe invalid \xc3\x28 utf-8\n",
    b"nul \x00\x00 bytes\n" * 40,
    b"carriage\r\nreturns\r\n",
    b"progress 1%\rprogress 2%\rprogress 3%",
    "sürprise \U0001f525   end\n".encode(),
    b"\xed\xa0\x80 a surrogate\n",
    b"\x1b[31mred\x1b[0m \x07\n",
    bytes(range(256)),
    b"",
]


@pytest.mark.parametrize("data", HOSTILE_BYTES, ids=range(len(HOSTILE_BYTES)))
def test_the_daemon_gets_the_same_bytes_back(node: Node, data: bytes) -> None:
    (node.folder / "slurm-12.out").write_bytes(data)
    node.end_job()

    node.collect()

    assert file_of(node.records()[0], "slurm-12.out") == data


def test_an_environment_that_is_not_utf8_can_still_be_read(node: Node) -> None:
    odd = os.fsdecode(b"caf\xe9 \xff")
    work = node.folder / odd
    work.mkdir()
    (work / "slurm-12.out").write_bytes(b"here\n")
    node.end_job(SLURM_JOB_WORK_DIR=str(work), SLURM_JOB_COMMENT=odd)

    node.collect()

    (record,) = node.records()
    assert record.environment["SLURM_JOB_COMMENT"] == "caf\\xe9 \\xff"
    assert file_of(record, "slurm-12.out") == b"here\n"


def test_it_works_with_no_more_of_roots_rights_than_the_unit_leaves_it(
    node: Node, owner: pwd.struct_passwd
) -> None:
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("setpriv is not installed")
    unit = (ROOT / "etc/systemd/firstfault-collector.service").read_text()
    (names,) = re.findall("^CapabilityBoundingSet=(.*)$", unit, re.MULTILINE)
    kept = ",".join("+" + name.lower()[4:] for name in names.split())
    output = node.folder / "slurm-12.out"
    output.write_bytes(b"the owner's\n")
    os.chown(output, owner.pw_uid, owner.pw_gid)
    output.chmod(0o600)
    node.end_job(SLURM_JOB_UID=str(owner.pw_uid), SLURM_JOB_GID=str(owner.pw_gid))
    argv = [setpriv, "--bounding-set", f"-all,{kept}", "--no-new-privs", *node.command()]

    done = subprocess.run(argv, env={}, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
    assert file_of(node.records()[0], "slurm-12.out") == b"the owner's\n"


def test_the_owner_need_not_be_able_to_read_the_collector(
    node: Node, owner: pwd.struct_passwd
) -> None:
    private = node.folder / "private"
    private.mkdir(mode=0o700)
    node.pyz = Path(shutil.copy(node.pyz, private))
    output = node.folder / "slurm-12.out"
    output.write_bytes(b"text\n" * 50_000)
    os.chown(output, owner.pw_uid, owner.pw_gid)
    node.end_job(SLURM_JOB_UID=str(owner.pw_uid), SLURM_JOB_GID=str(owner.pw_gid))

    done = node.collect()

    assert (done.returncode, done.stderr) == (0, "")
    assert file_of(node.records()[0], "slurm-12.out").endswith(b"text\n")


@pytest.mark.slow
def test_a_record_is_at_most_a_mebibyte(node: Node) -> None:
    noise = b"\x01\x02 Error: line %d\n"
    text = b"".join(noise % n + b"\x03" * 200 for n in range(6000))
    (node.folder / "slurm-12.out").write_bytes(text)
    ranks = {f"{n}/{name}.log": text for n in range(8) for name in ("stderr", "stdout")}
    write_ranks(node.folder / "ranks", "12_abcd", ranks)
    node.end_job()

    node.collect()

    (data,) = node.raw_records()
    assert len(data) <= 1 << 20
    assert len([file for file in evidence.decode(data).files if file.excerpts]) == 17


def test_the_daemon_may_read_the_record_and_others_may_not(node: Node) -> None:
    node.end_job()

    node.collect()

    (path,) = node.spool.iterdir()
    assert path.stat().st_mode & 0o777 == 0o640


def test_files_of_roots_job_are_not_read_unless_allowed(node: Node) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: is about root's files")
    node.configure(FIRSTFAULT_ALLOW_ROOT_JOBS="0")
    (node.folder / "slurm-12.out").write_bytes(b"root's\n")
    node.end_job()

    node.collect()

    (record,) = node.records()
    assert [file.what for file in record.files] == []
    assert "EPERM" in [row.reason for row in record.coverage]


def test_without_root_it_reads_its_own_files_and_says_so(
    node: Node, owner: pwd.struct_passwd
) -> None:
    for path in (node.folder, node.spool):
        os.chown(path, owner.pw_uid, owner.pw_gid)
    output = node.folder / "slurm-12.out"
    output.write_bytes(b"mine\n")
    os.chown(output, owner.pw_uid, owner.pw_gid)
    setpriv = ["/usr/bin/setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}"]
    setpriv.append("--clear-groups")
    variables = node.environment(SLURM_JOB_UID="1") | {"FIRSTFAULT_CONF": str(node.conf)}
    # The clone itself may lie where that user cannot go.
    stub = node.folder / "firstfault-epilog"
    shutil.copy(node.stub, stub)
    subprocess.run([*setpriv, str(stub)], env=variables, check=True, cwd="/")
    argv = [*setpriv, "/usr/bin/python3", *node.command()[1:]]

    done = subprocess.run(argv, env={}, cwd="/", capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
    (record,) = node.records()
    assert file_of(record, "slurm-12.out") == b"mine\n"
    assert any("not root" in note for note in record.notes)
