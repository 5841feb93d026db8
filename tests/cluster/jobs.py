"""Real jobs on the test cluster: submitted together, acted upon, awaited, their evidence kept."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import slurm_cluster
from tests.cluster.scenarios import Scenario

USER = "firstfault-test"
TORCH = Path(os.environ.get("FIRSTFAULT_TORCH_VENV", "/opt/firstfault-tests/torch-venv"))
# The comment of a job whose nodes send their records.
PUSHES = "pushes"
HERE = Path(__file__).resolve().parent
_UNFINISHED = {"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING", "STOPPED"}
_SACCT_FIELDS = (
    "JobID,JobName,User,Partition,State,ExitCode,DerivedExitCode,NodeList,Start,End,Elapsed,"
    "Timelimit,MaxRSS,ReqMem,Reason,WorkDir"
)
# set -e would hide the status of srun behind the shell's own words. --local-addr: the machine's
# own name need not resolve.
_ELASTIC = """{torch}/bin/torchrun --nnodes=$SLURM_NNODES --nproc-per-node=2 \\
  --max-restarts={restarts} --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:{port} --local-addr=127.0.0.1 \\
  --rdzv-id=$SLURM_JOB_ID --log-dir=ranks/$SLURMD_NODENAME --tee=3 train.py"""
_SCRIPTS = {
    "elastic": f"""#!/bin/bash
srun {{label}} -K1 bash -c 'exec {_ELASTIC}'
""",
    # a /dev/shm of its own: that of the machine is everybody's
    "small-shm": f"""#!/bin/bash
srun {{label}} -K1 unshare --user --map-root-user --mount bash -c \\
  'mount -t tmpfs -o size=4m,mode=1777 tmpfs /dev/shm && exec {_ELASTIC}'
""",
    "port-in-use": """#!/bin/bash
{torch}/bin/python -m http.server --bind 127.0.0.1 {port} >/dev/null 2>&1 &
until (: </dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.2; done
srun {label} -K1 {torch}/bin/torchrun --nnodes=1 --nproc-per-node=2 --rdzv-backend=static \\
  --master-addr=127.0.0.1 --master-port={port} --node-rank=0 train.py
""",
    "node-missing": f"""#!/bin/bash
srun {{label}} -K1 bash -c 'exec {_ELASTIC}'
""".replace("--nnodes=$SLURM_NNODES", "--nnodes=3 --rdzv-conf=join_timeout=20"),
    "interpreter": """#!{torch}/bin/python9
print("never")
""",
    "work-folder": """#!/bin/bash
srun hostname
""",
    # a watching step beside the training, as profilers and metric scrapers are
    "two-steps": f"""#!/bin/bash
srun --overlap --mem=200 bash -c 'while sleep 1; do echo "gpu error count 0"; done' &
srun --overlap --mem=1500 {{label}} -K1 bash -c 'exec {_ELASTIC}'
""",
}
# A card that is lost, as the driver says it. Written by a program: the kernel marks it as such.
_XID = "<3>NVRM: Xid (PCI:0000:9b:00): 79, pid={pid}, name=python, GPU has fallen off the bus.\n"


@dataclass(frozen=True)
class Run:
    """One submitted job; ``folder`` is its working directory."""

    scenario: Scenario
    job: str
    folder: Path
    submitted_at: float

    @property
    def output(self) -> Path:
        """Where the job's console goes."""
        name = self.scenario.output or "slurm-%j.out"
        return self.folder / name.replace("%j", self.job)

    @property
    def roster(self) -> dict[int, dict[str, Any]]:
        """Which rank really ran where, by global rank; of each the last attempt."""
        found = [json.loads(file.read_text()) for file in (self.folder / "truth").glob("rank-*")]
        return {who["rank"]: who for who in found}

    @property
    def host(self) -> str | None:
        """The host of the rank that fails first, None where no rank does."""
        rank = self.scenario.rank
        return None if rank is None else str(self.roster[rank]["host"])


def missing() -> str | None:
    """What keeps these jobs from running here, None if nothing does."""
    if not (TORCH / "complete").is_file():
        return f"no torch in {TORCH} (tests/run installs it)"
    return None


def account() -> pwd.struct_passwd:
    """The ordinary user that the jobs belong to; made if it is not there."""
    try:
        return pwd.getpwnam(USER)
    except KeyError:
        argv = ["/usr/sbin/useradd", "--system", "--no-create-home", "--shell", "/bin/sh", USER]
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, timeout=30)
        return pwd.getpwnam(USER)


def submit(base: Path, scenario: Scenario, *, after: list[str]) -> Run:
    """Submits the scenario's job, to run once the jobs ``after`` have ended, however they did."""
    user = account()
    folder = base / "work" / scenario.name
    for path in (folder, folder / "truth"):
        path.mkdir(parents=True)
        os.chown(path, user.pw_uid, user.pw_gid)
    shutil.copy(HERE / "train.py", folder / "train.py")
    (port,) = slurm_cluster.free_ports(1)
    if scenario.small is not None:
        small = folder / scenario.small
        small.mkdir()
        options = f"size=1m,uid={user.pw_uid},mode=0700"
        subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", options, "tmpfs", small], check=True)
    script = _SCRIPTS[scenario.script].format(
        label="--label" if scenario.label else "",
        torch=TORCH,
        restarts=scenario.restarts,
        port=port,
    )
    argv = ["/usr/bin/sbatch", "--parsable", f"--nodes={scenario.nodes}", "--ntasks-per-node=1"]
    argv += ["--cpus-per-task=1", "--mem=2000", f"--time={scenario.time_limit}", "--no-requeue"]
    argv += [f"--job-name={scenario.job_name or scenario.name}"]
    away = folder / "not-there" if scenario.script == "work-folder" else folder
    argv.append(f"--chdir={away}")
    if scenario.output is not None:
        argv.append(f"--output={scenario.output}")
    if scenario.pushes:
        argv.append(f"--comment={PUSHES}")
    if after:
        argv.append(f"--dependency=afterany:{':'.join(after)}")
    environment = slurm_cluster.environment(base) | scenario.environment
    environment |= {"TRUTH": str(folder / "truth"), "GLOO_SOCKET_IFNAME": "lo"}
    environment |= {"OMP_NUM_THREADS": "1", "PATH": f"{TORCH}/bin:/usr/bin:/bin"}
    done = subprocess.run(
        argv,
        env=environment,
        input=script,
        capture_output=True,
        text=True,
        timeout=30,
        cwd=folder,
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=[],
    )
    if done.returncode != 0:
        raise slurm_cluster.ClusterError(f"sbatch for {scenario.name}: {done.stderr.strip()}")
    job = done.stdout.strip().partition(";")[0]
    return Run(scenario, job, folder, time.time())


def act(base: Path, run: Run) -> str | None:
    """Does the scenario's act from outside if its moment has come.

    Returns what was hit (the killed rank's pid, the dead node), None if it was too early.
    """
    ranks = range(2 * run.scenario.nodes)
    if not all((run.folder / "truth" / f"ready-{rank}").exists() for rank in ranks):
        return None
    if run.scenario.act == "kill-rank":
        assert run.scenario.rank is not None
        pid = run.roster[run.scenario.rank]["pid"]
        os.kill(pid, signal.SIGKILL)
        return str(pid)
    if run.scenario.act == "write-xid":
        pid = run.roster[0]["pid"]
        Path("/dev/kmsg").write_text(_XID.format(pid=pid))
        (run.folder / "truth/acted").touch()
        return str(pid)
    if run.scenario.act == "cancel":
        slurm_cluster.ask(base, "scancel", run.job)
        return run.job
    # not the node of the batch script: its end would be noticed elsewhere
    first = slurm_cluster.ask(base, "squeue", "-h", "-j", run.job, "-o", "%B").strip()
    node = next(str(who["host"]) for who in run.roster.values() if who["host"] != first)
    slurm_cluster.kill_node(base, node, run.job)
    return node


def state(base: Path, run: Run) -> str | None:
    """The state in which the job ended, None if it has not yet."""
    text = slurm_cluster.ask(base, "scontrol", "--oneliner", "show", "job", run.job)
    now = text.partition("JobState=")[2].partition(" ")[0]
    return None if now in _UNFINISHED else now


def keep(base: Path, run: Run, into: Path, **more: Any) -> None:
    """Copies the run's evidence into the folder ``into``: console, rank files, kernel log, sacct.

    ``more`` goes into meta.json.
    """
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    if run.output.exists():
        shutil.copy(run.output, into / "slurm.out")
    if (run.folder / "ranks").is_dir():
        shutil.copytree(run.folder / "ranks", into / "ranks")
    (into / "kmsg.txt").write_text("".join(f"{line}\n" for line in kernel_log(run.submitted_at)))
    sacct = ("sacct", "-D", "-P", "-j", run.job)
    (into / "sacct.txt").write_text(slurm_cluster.ask(base, *sacct, "-o", _SACCT_FIELDS))
    (into / "sacct.json").write_text(slurm_cluster.ask(base, "sacct", "--json", "-j", run.job))
    for file in (base / "epilog").glob(f"{run.job}.*.txt"):
        shutil.copy(file, into / f"epilog.{file.name.split('.')[1]}.txt")
    meta = {
        "name": run.scenario.name,
        "job": run.job,
        "nodes": run.scenario.nodes,
        "env": run.scenario.environment,
        "act": run.scenario.act,
        "truth": {"cause": run.scenario.cause, "rank": run.scenario.rank},
        "roster": sorted(run.roster.values(), key=lambda who: int(who["rank"])),
        "kmsg_offset": kernel_offset_s(),
        "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "epilog_at": {
            file.name.split(".")[1]: file.stat().st_mtime
            for file in sorted((base / "epilog").glob(f"{run.job}.*.txt"))
        },
        **more,
    }
    (into / "meta.json").write_text(json.dumps(meta, indent=1) + "\n")


def kernel_offset_s() -> float:
    """Wall clock minus the clock of the kernel log, in seconds."""
    return time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)


def kernel_log(since: float = 0) -> list[str]:
    """The records of /dev/kmsg from ``since`` (seconds since the epoch), continuation lines left out."""
    first_us = (since - kernel_offset_s()) * 1e6
    lines: list[str] = []
    device = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    try:
        while True:
            try:
                record = os.read(device, 8192)
            except BlockingIOError:
                return lines
            except BrokenPipeError:
                continue  # the ring was overwritten under us; the next read is at its new start
            line = record.decode(errors="replace").partition("\n")[0]
            if int(line.split(",")[2]) >= first_us:
                lines.append(line)
    finally:
        os.close(device)
