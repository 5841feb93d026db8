"""Runs jobs on a Slurm of four nodes on this machine and makes cases of them. Needs root.

    python -m tests.diagnosis.recording.cluster NAME...     (a name's beginning is enough)

Each slurmd has a host name of its own (n1 to n4), so that a table of torchelastic names its node.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from tests.cluster import jobs, slurm_cluster
from tests.cluster.slurm_cluster import ask
from tests.diagnosis.recording import local, write
from tests.diagnosis.recording.hang_jobs import HANG_JOBS
from tests.diagnosis.recording.job import Job
from tests.diagnosis.recording.jobs import JOBS
from tests.diagnosis.recording.slurm_jobs import MORE_JOBS

HERE = Path(__file__).resolve().parent
AT_ONCE = 2
DEADLINE_S = 300
# How long a job that hangs is left alone before something is done about it.
PATIENCE_S = 60
_FIELDS = (
    "JobID,JobName,User,Partition,State,ExitCode,DerivedExitCode,NodeList,Start,End,Elapsed,"
    "Timelimit,MaxRSS,ReqMem,Reason,WorkDir"
)
_PARTITIONS = (
    "PreemptType=preempt/partition_prio",
    "PreemptMode=CANCEL",
    "PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP DefMemPerCPU=1000 PriorityTier=10",
    "PartitionName=low Nodes=ALL MaxTime=INFINITE State=UP DefMemPerCPU=1000 PriorityTier=1",
)


@contextlib.contextmanager
def running() -> Iterator[Path]:
    """A cluster for the time of the block; yields its folder."""
    base = Path(tempfile.mkdtemp(prefix="ff-recording-", dir="/tmp"))
    for name in ("epilog", "work"):
        (base / name).mkdir()
    (base / "epilog").chmod(0o777)
    epilog = base / "epilog.sh"
    epilog.write_text(f"#!/bin/sh\nenv >{base}/epilog/$SLURM_JOB_ID.$SLURMD_NODENAME.txt\n")
    epilog.chmod(0o755)
    hosts = ["127.0.0.1 localhost", *(f"127.0.1.{n} n{n}" for n in range(1, 5))]
    (base / "hosts").write_text("\n".join(hosts) + "\n")
    original = slurm_cluster._start

    def named(base: Path, name: str, argv: list[str], *, user: str = "root") -> None:
        node = name.removeprefix("slurmd.")
        if name.startswith("slurmd."):
            script = f"hostname {node}; mount --bind {base}/hosts /etc/hosts; exec {' '.join(argv)}"
            argv = ["unshare", "--uts", "--mount", "sh", "-c", script]
        original(base, name, argv, user=user)

    configure = slurm_cluster._write_configuration

    def configured(base: Path, epilog: Path | None, more: tuple[str, ...]) -> None:
        configure(base, epilog, more)
        conf = base / "etc/slurm.conf"
        text = conf.read_text().replace("ClusterName=firstfaulttest", "ClusterName=cluster1")
        conf.write_text(text + "".join(f"{line}\n" for line in _PARTITIONS))

    slurm_cluster._start = named  # type: ignore[assignment]
    slurm_cluster._write_configuration = configured
    try:
        slurm_cluster.start(base, epilog=epilog)
        yield base
    finally:
        slurm_cluster.stop(base)


def submit(base: Path, job: Job, script: str, *more: str) -> tuple[str, Path]:
    """Submits a job as an ordinary user; returns its number and its folder."""
    user = jobs.account()
    folder = base / "work" / job.name
    for path in (folder, folder / "truth", folder / "data"):
        path.mkdir(parents=True, exist_ok=True)
        os.chown(path, user.pw_uid, user.pw_gid)
    for file in ("train.py", "faults.py", "hang_train.py"):
        shutil.copy(HERE / file, folder / file)
    (port,) = slurm_cluster.free_ports(1)
    argv = ["/usr/bin/sbatch", "--parsable", f"--chdir={folder}", f"--job-name={job.name}"]
    argv += ["--time=5", "--no-requeue", "--mem=2000", *job.options, *more]
    venv = local.venv(job.torch)
    environment = slurm_cluster.environment(base) | job.env
    environment |= {"TRUTH": str(folder / "truth"), "GLOO_SOCKET_IFNAME": "lo", "PORT": str(port)}
    environment |= {"OMP_NUM_THREADS": "1", "PATH": f"{venv}/bin:/usr/bin:/bin"}
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    done = subprocess.run(
        argv,
        env=environment,
        input=script.replace("VENV", str(venv)),
        capture_output=True,
        text=True,
        timeout=30,
        cwd="/tmp",
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=[],
    )
    if done.returncode != 0:
        raise slurm_cluster.ClusterError(f"sbatch for {job.name}: {done.stderr.strip()}")
    return done.stdout.strip().partition(";")[0], folder


def act(base: Path, job: Job, number: str, folder: Path) -> None:
    """Does to the job what its act says; "wait-": only after a while."""
    if (job.act or "").startswith(("wait-", "py-spy-")):
        time.sleep(PATIENCE_S)
    if (job.act or "").startswith("py-spy-"):
        dump_stacks(folder)
    doing = (job.act or "").removeprefix("wait-").removeprefix("py-spy-")
    if doing == "cancel":
        ask(base, "scancel", number)
    elif doing == "cancel-owner":
        argv = ["/usr/bin/scancel", number]
        user = jobs.account().pw_uid
        subprocess.run(argv, env=slurm_cluster.environment(base), user=user, check=True, timeout=30)
    elif doing == "interrupt":
        ask(base, "scancel", "--signal=INT", number)
    elif doing == "requeue":
        ask(base, "scontrol", "requeue", number)
    elif doing == "preempt":
        script = "#!/bin/sh\nsleep 5\n"
        other = Job("intruder", job.torch, "", (), "")
        submit(base, other, script, "--partition=high", "--nodes=4", "--exclusive", "--mem=4500")
    elif doing == "kill-node":
        slurm_cluster.kill_node(base, victim(folder), number)
    elif doing == "kill-agent":
        node = f"SLURMD_NODENAME={victim(folder)}".encode()
        mark = f"TRUTH={folder}/truth".encode()
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                environ = (path / "environ").read_bytes().split(b"\0")
                agent = b"torchrun" in (path / "cmdline").read_bytes()
                if agent and mark in environ and node in environ:
                    os.kill(int(path.name), 9)


def dump_stacks(folder: Path) -> None:
    """What py-spy (0.4.3, on the PATH) tells of each rank, in a file of its own under its host."""
    for rank, who in sorted(local.roster(folder).items()):
        argv = ["py-spy", "dump", "--pid", str(who["pid"])]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        into = folder / "stacks" / str(who["host"])
        into.mkdir(parents=True, exist_ok=True)
        (into / f"py-spy.rank{rank}.txt").write_text(done.stdout)


def placed(job: Job, folder: Path, batch_host: str | None) -> Job:
    """The job with the host on which its rank really ran."""
    found = local.roster(folder)
    if job.act in ("kill-node", "kill-agent"):
        return replace(job, host=victim(folder))
    if job.host == "batch":
        return replace(job, host=batch_host)
    if job.rank is None or job.host == "untold":
        return replace(job, host=None)
    return replace(job, host=str(found[job.rank]["host"]) if job.rank in found else None)


def victim(folder: Path) -> str:
    """The node to kill, or whose agent to kill: not the one of the batch script."""
    return max(str(who["host"]) for who in local.roster(folder).values())


def ready(job: Job, folder: Path) -> bool:
    """Whether all ranks are at the fault's step."""
    return all((folder / f"truth/ready-{rank}").exists() for rank in range(job.ranks))


def record(base: Path, job: Job) -> Path:
    """Runs a job to its end and makes its case."""
    since = time.time()
    number, folder = submit(base, job, job.script)
    until = time.monotonic() + DEADLINE_S
    acted = job.act is None
    while time.monotonic() < until:
        time.sleep(0.5)
        if not acted and ready(job, folder):
            act(base, job, number, folder)
            acted = True
        text = ask(base, "scontrol", "--oneliner", "show", "job", number)
        state = text.partition("JobState=")[2].partition(" ")[0]
        batch_host = text.partition("BatchHost=")[2].partition(" ")[0] or None
        if state not in jobs._UNFINISHED | {"REQUEUED"}:
            break
    time.sleep(2)
    kept = local.BASE / job.name / "kept"
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    for file in folder.glob("slurm-*.out"):
        shutil.copy(file, kept / file.name)
    if (folder / "ranks").is_dir() and "ranks" in job.keep:
        shutil.copytree(folder / "ranks", kept / "ranks")
    if (folder / "stacks").is_dir():
        shutil.copytree(folder / "stacks", kept, dirs_exist_ok=True)
    if "sacct" in job.keep:
        sacct = ask(base, "sacct", "-D", "-P", "-j", number, "-o", _FIELDS)
        (kept / "sacct.txt").write_text(sacct)
    if "scontrol" in job.keep:
        (kept / "scontrol.txt").write_text(ask(base, "scontrol", "show", "job", number))
    if "epilog" in job.keep:
        for file in (base / "epilog").glob(f"{number}.*.txt"):
            shutil.copy(file, kept / f"epilog.{file.name.split('.')[1]}.txt")
    if "kernel" in job.keep:
        lines = [line for line in jobs.kernel_log(since) if f"job_{number}" in line or job.noise]
        (kept / "kmsg.txt").write_text("".join(f"{line}\n" for line in lines))
    case = write.write(placed(job, folder, batch_host), kept)
    for file in case.rglob("*"):
        if file.is_file():
            data = file.read_bytes().replace(str(folder).encode(), b"/home/alice/train")
            data = data.replace(f"{base}/etc".encode(), b"/etc/slurm")
            data = re.sub(rf"{base}/spool/n\d".encode(), b"/var/spool/slurmd", data)
            data = data.replace(jobs.USER.encode(), b"alice")
            data = re.sub(rb"(?m)^PWD=.*", b"PWD=/var/log/slurm", data)
            file.write_bytes(data)
    ranks = {rank: who["host"] for rank, who in sorted(local.roster(folder).items())}
    print(f"{job.name}: {number} {state} {ranks}", flush=True)
    return case


def main(names: list[str]) -> None:
    """Records the chosen jobs, several at once; what takes down a node goes last and alone."""
    chosen = [
        job
        for job in (*JOBS, *MORE_JOBS, *HANG_JOBS)
        if any(job.name.startswith(name) for name in names)
    ]
    alone = [job for job in chosen if job.act in ("kill-node", "preempt", "wait-preempt")]
    with running() as base:
        print(f"cluster in {base}", flush=True)

        def one(job: Job) -> None:
            try:
                record(base, job)
            except (OSError, slurm_cluster.ClusterError, subprocess.SubprocessError) as error:
                print(f"{job.name}: {error!r}", flush=True)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(one, [job for job in chosen if job not in alone]))
        for job in sorted(alone, key=lambda job: job.act == "kill-node"):
            one(job)


if __name__ == "__main__":
    main(sys.argv[1:])
