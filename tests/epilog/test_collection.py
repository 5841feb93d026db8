"""From the Epilog to the record, with the real script and the real archive."""

from __future__ import annotations

import os
import pwd
import random
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from firstfault.model import evidence
from firstfault_epilog import mounts
from tests.epilog.conftest import ROOT
from tests.epilog.node import Node, file_of, reason_of

RECORDED_OFFSET_S = 1796052555.949805
OOM_AT_S = 1629.472548


def oom_block(job: int, pid: int, sequence: int, microseconds: int) -> str:
    """An OOM kill as the kernel logs it (shortened from a recorded one)."""
    texts = [
        (4, "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"),
        (4, f"CPU: 0 UID: 1001 PID: {pid} Comm: python3 Not tainted 6.18.44 #1 PREEMPT(none) "),
        (4, "Call Trace:"),
        (6, "memory: usage 2048000kB, limit 2048000kB, failcnt 94"),
        (6, "Tasks state (memory values in pages):"),
        (6, f"[  {pid}]  1001 {pid}  930016   512101   499839    12262         0  5693440"),
        (
            6,
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
            f"oom_memcg=/slurm_n3/uid_1001/job_{job},"
            f"task_memcg=/slurm_n3/uid_1001/job_{job}/step_0/task_0,task=python3,pid={pid},uid=1001",
        ),
        (3, f"Memory cgroup out of memory: Killed process {pid} (python3) total-vm:3720064kB"),
    ]
    return "".join(
        f"{prefix},{sequence + i},{microseconds + i},-;{text}\n"
        for i, (prefix, text) in enumerate(texts)
    )


def set_time(path: Path, at_s: float) -> None:
    os.utime(path, (at_s, at_s), follow_symlinks=False)


def end_job_at(node: Node, at_s: float, **changes: str) -> None:
    before = set(node.waiting())
    assert node.end_job(**changes) == 0
    (entry,) = set(node.waiting()) - before
    set_time(entry, at_s)


def write_ranks(folder: Path, name: str, texts: dict[str, bytes]) -> None:
    for path, data in texts.items():
        target = folder / name / "attempt_0" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


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


def test_a_name_full_of_percent_signs_is_found(node: Node) -> None:
    (node.folder / "my[*]name-000012-n1.out").write_bytes(b"mine\n")
    node.end_job(SLURM_JOB_STDOUT=f"{node.folder}/%x-%6j-%N.out")

    node.collect()

    assert file_of(node.records()[0], "n1.out") == b"mine\n"


def test_of_several_outputs_that_fit_the_newest_is_taken_and_it_is_said(node: Node) -> None:
    now = time.time()
    for task, age in ((1, 50), (2, 10), (3, 900000), (4, -3600)):
        path = node.folder / f"slurm-10_{task}.out"
        path.write_bytes(b"task %d\n" % task)
        set_time(path, now - age)
    node.end_job(SLURM_JOB_STDOUT=f"{node.folder}/slurm-%A_%a.out")

    node.collect()

    (record,) = node.records()
    assert file_of(record, "slurm-10_2.out") == b"task 2\n"
    assert "ambiguous" in [row.reason for row in record.coverage]


def test_run_folders_of_another_job_of_the_same_user_are_left_alone(node: Node) -> None:
    for name in ("12_aaaa", "13_bbbb"):
        write_ranks(node.folder / "ranks", name, {"0/stderr.log": name.encode()})
    node.end_job()

    node.collect()

    (record,) = node.records()
    names = [file.name for file in record.files if file.what == "rank-log"]
    assert [name.split("/")[-4] for name in names] == ["12_aaaa"]


def test_a_run_folder_that_only_the_output_mentions_is_read(node: Node) -> None:
    write_ranks(
        node.folder / "elsewhere", "none_x", {"1/error.json": b"{}", "1/stderr.log": b"E\n"}
    )
    mention = f"  error_file: {node.folder}/elsewhere/none_x/attempt_0/1/error.json\n"
    (node.folder / "slurm-12.out").write_text("root cause\n" + mention)
    node.end_job()

    node.collect()

    assert file_of(node.records()[0], "1/stderr.log") == b"E\n"


def test_what_other_nodes_agents_say_is_not_taken_for_this_nodes(node: Node) -> None:
    """All nodes' agents speak in the job's output, and on one machine all their folders exist."""
    for host in ("n3", "n4"):
        write_ranks(node.folder / host, "12_" + host, {"0/stderr.log": host.encode()})
    mention = f"error_file: {node.folder}/n4/12_n4/attempt_0/0/error.json\n"
    (node.folder / "slurm-12.out").write_text(mention)
    node.configure(FIRSTFAULT_RANK_LOGS=f"{node.folder}/%N/%j_*")
    node.end_job()

    node.collect()

    names = [file.name for file in node.records()[0].files if file.what == "rank-log"]
    assert names == [f"{node.folder}/n3/12_n3/attempt_0/0/stderr.log"]


def test_where_places_name_the_node_a_mention_of_another_place_is_another_nodes(
    node: Node,
) -> None:
    write_ranks(node.folder / "n4", "12_n4", {"0/error.json": b"{}"})
    mention = f"error_file: {node.folder}/n4/12_n4/attempt_0/0/error.json\n"
    (node.folder / "slurm-12.out").write_text(mention)
    node.configure(FIRSTFAULT_RANK_LOGS=f"{node.folder}/%N/%j_*")
    node.end_job()

    node.collect()

    (record,) = node.records()
    assert [file.what for file in record.files] == ["job-output"]
    assert "absent" in [row.reason for row in record.coverage]


def test_whether_other_nodes_may_see_a_file_is_said(node: Node) -> None:
    write_ranks(node.folder / "n3", "12_x", {"0/stderr.log": b"x"})
    (node.folder / "slurm-12.out").write_bytes(b"x")
    node.configure(FIRSTFAULT_RANK_LOGS=f"{node.folder}/%N/%j_*")
    node.end_job()

    node.collect()

    (record,) = node.records()
    (rank,) = [file for file in record.files if file.what == "rank-log"]
    assert rank.shared is False, "the node's name is part of its place"
    assert mounts.is_shared(os.stat("/proc").st_dev) is None
    assert mounts.is_shared(os.stat("/dev/shm").st_dev) is False


def test_the_last_attempt_and_the_first_come_before_those_between(node: Node) -> None:
    for attempt in range(12):
        folder = node.folder / f"ranks/12_x/attempt_{attempt}/0"
        folder.mkdir(parents=True)
        (folder / "stderr.log").write_bytes(b"%d" % attempt)
    node.end_job()

    node.collect()

    names = [file.name for file in node.records()[0].files if file.what == "rank-log"]
    assert [int(name.split("_")[-1].split("/")[0]) for name in names] == [11, 0, *range(10, 0, -1)]


def test_where_no_start_is_told_old_runs_of_the_user_are_left_out_and_it_is_said(
    node: Node,
) -> None:
    ended_at = time.time()
    for name, age in (("none_new", 600), ("none_old", 7200)):
        write_ranks(node.folder / "ranks", name, {"0/stderr.log": b"x"})
        for path in (node.folder / "ranks" / name).rglob("*"):
            set_time(path, ended_at - age)
        set_time(node.folder / "ranks" / name, ended_at - age)
    node.end_job()

    node.collect()

    (record,) = node.records()
    names = [file.name for file in record.files if file.what == "rank-log"]
    assert len(names) == 1 and "none_new" in names[0]
    assert "ambiguous" in [row.reason for row in record.coverage]


def test_where_the_start_is_told_runs_from_before_it_are_left_out(node: Node) -> None:
    ended_at = time.time()
    for name, age in (("none_mine", 600), ("none_before", 1200)):
        write_ranks(node.folder / "ranks", name, {"0/stderr.log": b"x"})
        for path in (node.folder / "ranks" / name).rglob("*"):
            set_time(path, ended_at - age)
        set_time(node.folder / "ranks" / name, ended_at - age)
    node.end_job(SLURM_JOB_START_TIME=str(int(ended_at) - 900))

    node.collect()

    (record,) = node.records()
    names = [file.name for file in record.files if file.what == "rank-log"]
    assert len(names) == 1 and "none_mine" in names[0]
    assert "ambiguous" not in [row.reason for row in record.coverage]


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


def test_a_missing_output_is_said(node: Node) -> None:
    node.end_job()

    node.collect()

    (record,) = node.records()
    assert reason_of(record, "slurm-12.out") == "ENOENT"


def test_the_same_entry_makes_the_same_record_name_and_another_end_another(node: Node) -> None:
    end_job_at(node, 1000.0)
    end_job_at(node, 2000.0)

    node.collect()

    records = node.records()
    assert len({record.id for record in records}) == len(records) == 2


def test_an_entry_that_cannot_be_read_goes_to_the_quarantine_with_the_reason(node: Node) -> None:
    node.end_job()
    (good,) = node.waiting()
    for name, data in (
        ("12-n3-1", good.read_bytes()[:-20]),
        ("12-n3-2", b"\x00" * 100),
        ("12-n3-3", good.read_bytes().replace(b"SLURM_JOB_ID=12", b"SLURM_JOB_ID=../x")),
    ):
        (node.queue / "ready" / name).write_bytes(data)

    done = node.collect()

    assert done.returncode == 0
    assert len(node.records()) == 1
    assert len([path for path in node.waiting("quarantine") if path.suffix == ".reason"]) == 3


def test_with_no_spool_the_entry_waits_and_is_taken_when_there_is_one(node: Node) -> None:
    node.spool.rmdir()
    node.end_job()
    for _ in range(5):
        done = node.collect()
        assert done.returncode == 1
        assert str(node.spool) in done.stderr
    node.spool.mkdir()

    done = node.collect()

    assert done.returncode == 0
    assert len(node.records()) == 1
    assert node.waiting("quarantine") == []


@pytest.fixture
def small_disk(node: Node) -> Iterator[Path]:
    """A disk of 64 KiB."""
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts a small disk")
    place = node.folder / "disk"
    place.mkdir()
    mount = ["/bin/mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "none", place]
    if subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("mounting is not allowed here")
    yield place
    subprocess.run(["/bin/umount", place], check=True)


def test_with_a_full_spool_the_entry_waits_and_nothing_half_written_stays(
    node: Node, small_disk: Path
) -> None:
    node.configure(FIRSTFAULT_SPOOL=str(small_disk))
    (node.folder / "slurm-12.out").write_bytes(os.urandom(20_000))
    (small_disk / "filler").write_bytes(b"x" * 60_000)
    node.end_job()

    full = node.collect()
    left = [path.name for path in small_disk.iterdir()]
    (small_disk / "filler").unlink()
    freed = node.collect()

    assert (full.returncode, left) == (1, ["filler"])
    assert "No space left" in full.stderr
    assert freed.returncode == 0
    assert len(list(small_disk.glob("*.json.gz"))) == 1


def test_a_queue_that_became_read_only_is_said_and_fails_no_epilog(
    node: Node, small_disk: Path
) -> None:
    node.configure(FIRSTFAULT_QUEUE=str(small_disk))
    node.end_job()
    subprocess.run(["/bin/mount", "-o", "remount,ro", small_disk], check=True)

    status = node.end_job()
    done = node.collect()

    assert status == 0
    assert done.returncode == 1
    assert "Read-only file system" in done.stderr and str(small_disk) in done.stderr


def test_detached_its_complaints_go_to_syslog_and_it_ends_as_told(node: Node) -> None:
    node.spool.rmdir()
    node.end_job()

    done = subprocess.run(node.command(), env={}, stderr=subprocess.DEVNULL, timeout=30)

    assert done.returncode == 1


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


def test_an_entry_on_which_collectors_die_is_given_up(node: Node) -> None:
    node.end_job()
    (entry,) = node.waiting()
    (node.queue / "claimed").mkdir(exist_ok=True)
    entry.rename(node.queue / "claimed" / f"3.{entry.name}")

    node.collect()

    assert node.records() == []
    assert len(node.waiting("quarantine")) == 2


def test_two_collectors_at_once_take_each_entry_once(node: Node) -> None:
    for _ in range(6):
        node.end_job()

    running = [subprocess.Popen(node.command(), env={}) for _ in range(3)]
    codes = [process.wait(60) for process in running]

    assert codes == [0, 0, 0]
    assert len(node.records()) == 6
    assert node.waiting() == []


def test_a_collector_killed_at_any_moment_loses_nothing_and_leaves_no_half_record(
    node: Node,
) -> None:
    (node.folder / "slurm-12.out").write_bytes(os.urandom(60_000))
    delays = random.Random(12)
    for _ in range(20):
        node.end_job()
        process = subprocess.Popen(node.command(), env={}, stderr=subprocess.DEVNULL)
        try:
            process.wait(delays.uniform(0.0, 0.25))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for data in node.raw_records():
            assert evidence.decode(data).job == "12"
        for path in node.waiting("claimed"):
            path.rename(path.with_name("0." + path.name.partition(".")[2]))

    done = node.collect()

    assert done.returncode == 0
    assert len(node.records()) == 20
    assert node.waiting() == node.waiting("claimed") == node.waiting("quarantine") == []
    assert [path for path in node.spool.iterdir() if path.name.startswith(".")] == []


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
    as_owner = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
    variables = node.environment(SLURM_JOB_UID="1") | {"FIRSTFAULT_CONF": str(node.conf)}
    subprocess.run([node.stub], env=variables, check=True, cwd="/", **as_owner)
    python = "/usr/bin/python3"

    done = subprocess.run(
        [python, *node.command()[1:]], env={}, cwd="/", capture_output=True, text=True, **as_owner
    )

    assert (done.returncode, done.stderr) == (0, "")
    (record,) = node.records()
    assert file_of(record, "slurm-12.out") == b"mine\n"
    assert any("not root" in note for note in record.notes)
