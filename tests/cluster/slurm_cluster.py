"""A real Slurm on this one machine: MUNGE, MariaDB, slurmdbd, slurmctld and four slurmd on loopback.

Standard library only. Needs root and Debian's packages. A cluster lives in one folder, with ports,
sockets and job numbers of its own, so that several can run side by side. From a shell:

    python -m tests.cluster.slurm_cluster start FOLDER [EPILOG]
    python -m tests.cluster.slurm_cluster stop FOLDER
"""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.cluster import processes

NODES = ("n1", "n2", "n3", "n4")
NODE_MEMORY_MB = 5000
KILL_WAIT_S = 5
SLURMD_TIMEOUT_S = 15
PROGRAMS = ("munged", "mariadbd", "mariadb-install-db", "slurmdbd", "slurmctld", "slurmd", "sacct")
# Debian keeps the daemons where an ordinary user's PATH does not look
SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ClusterError(RuntimeError):
    """The cluster did not start; the message says what did not and which log tells why."""


def missing() -> str | None:
    """What keeps a cluster from running here, None if nothing does."""
    if os.geteuid() != 0:
        return "a real Slurm needs root"
    absent = [name for name in PROGRAMS if shutil.which(name, path=SEARCH) is None]
    if absent:
        return f"not installed: {', '.join(absent)} (tests/run installs them on Debian)"
    if not _cgroup_lines():
        return "no cgroup memory controller is mounted"
    return None


def environment(base: Path) -> dict[str, str]:
    """The environment in which Slurm's commands speak to the cluster in ``base``."""
    return {
        "PATH": SEARCH,
        "LC_ALL": "C",
        "SLURM_CONF": str(base / "etc/slurm.conf"),
        "MYSQL_UNIX_PORT": str(base / "db/sock"),
    }


def ask(base: Path, *argv: str, deadline_s: float = 30) -> str:
    """What a Slurm command prints. Raises ClusterError with its own words when it fails."""
    try:
        done = subprocess.run(
            argv,
            env=environment(base),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=deadline_s,
        )
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"{' '.join(argv)}: no answer in {deadline_s} s") from error
    if done.returncode != 0:
        raise ClusterError(f"{' '.join(argv)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def start(
    base: Path,
    *,
    epilog: Path | None = None,
    more: tuple[str, ...] = (),
    configless: bool = False,
    gpus: Mapping[str, str] | None = None,
) -> None:
    """Starts a cluster in ``base``, a folder that ordinary users can reach.

    ``more`` are further lines of slurm.conf. The nodes of a ``configless`` one get it from slurmctld.
    To Slurm the nodes in ``gpus`` have two GPUs each, of the type named there ("": of none).
    Returns when all nodes are idle. What was started is ended by `stop`, also when this raises.
    """
    reason = missing()
    if reason is not None:
        raise ClusterError(reason)
    _lay_out(base)
    _write_configuration(base, epilog, more)
    if gpus:
        _add_gpus(base, gpus)
    _start_munge(base)
    _start_database(base)
    start_accounting(base)
    _start(base, "slurmctld", ["slurmctld", "-D"], user="slurm")
    for node in NODES:
        start_node(base, node, configless=configless)
    idle = str(len(NODES))
    _await(
        base,
        "slurmctld",
        60,
        lambda: ask(base, "sinfo", "-h", "-t", "idle", "-o", "%D").strip() == idle,
    )


def start_accounting(base: Path) -> None:
    """Starts slurmdbd; returns when it answers."""
    _start(base, "slurmdbd", ["slurmdbd", "-D"], user="slurm")
    _await(base, "slurmdbd", 60, lambda: ask(base, "sacctmgr", "-n", "show", "cluster") is not None)


def start_node(base: Path, node: str, *, configless: bool = False) -> None:
    """Starts the slurmd of ``node``."""
    argv = ["slurmd", "-D", "-N", node]
    if configless:
        port = re.search("^SlurmctldPort=([0-9]+)", (base / "etc/slurm.conf").read_text(), re.M)
        assert port is not None
        argv += ["--conf-server", f"127.0.0.1:{port[1]}"]
        # until it has a configuration it looks for MUNGE where Debian puts it
        link = f"ln -s {base}/munge/socket /run/munge/munge.socket.2"
        place = f"mkdir -p /run/munge && mount -t tmpfs tmpfs /run/munge && {link}"
        argv = ["unshare", "--mount", "sh", "-c", f"{place} && exec {' '.join(argv)}"]
    _start(base, f"slurmd.{node}", argv)


def kill_node(base: Path, node: str, job: str) -> None:
    """Ends ``node`` as a power cut would: its slurmd, the job's slurmstepd and the job's processes.

    No Epilog runs there.
    """
    processes.kill(base / "pids" / f"slurmd.{node}", grace_s=0)
    doomed = {
        int(pid)
        for folder in Path("/sys/fs/cgroup").glob("memory/slurm_*")
        if folder.name == f"slurm_{node}"
        for file in folder.glob(f"uid_*/job_{job}/**/cgroup.procs")
        for pid in file.read_text().split()
    }
    for file in Path("/sys/fs/cgroup").glob(
        f"**/{node}_slurmstepd.scope/job_{job}/**/cgroup.procs"
    ):
        doomed.update(int(pid) for pid in file.read_text().split())
    # the step daemons stand outside of the job's memory cgroup on v1
    log = base / "log" / f"slurmd.{node}.log"
    doomed.update(pid for pid in processes.holding(log) if processes.name(pid) == "slurmstepd")
    processes.kill_all(doomed)


def stop(base: Path) -> None:
    """Ends everything that runs for the cluster in ``base``, jobs too. Safe to call twice."""
    pids = base / "pids"
    if processes.alive(pids / "slurmctld"):
        with contextlib.suppress(ClusterError):
            ask(base, "scancel", "--full", "--signal=KILL", "-p", "main", deadline_s=5)
            ask(base, "scancel", "-p", "main", deadline_s=5)
    for name in (
        *(f"slurmd.{node}" for node in NODES),
        "slurmctld",
        "slurmdbd",
        "mariadbd",
        "munged",
    ):
        processes.kill(pids / name, grace_s=10)
    if base.is_dir():
        processes.kill_all(processes.belonging_to(base))


def _lay_out(base: Path) -> None:
    for folder in ("etc", "state", "log", "run", "spool", "pids", "db", "munge"):
        (base / folder).mkdir(parents=True, exist_ok=True)
    base.chmod(0o755)
    for folder in ("state", "log", "run"):
        shutil.chown(base / folder, "slurm")
    for node in NODES:
        (base / "spool" / node).mkdir(exist_ok=True)


def _write_configuration(base: Path, epilog: Path | None, more: tuple[str, ...]) -> None:
    host = socket.gethostname().partition(".")[0]
    controller, database, *nodes = free_ports(2 + len(NODES))
    socket_path = base / "munge/socket"
    # jobs of another cluster on this machine share the kernel log and, on cgroup v1, the path
    # /slurm_n1/uid_U/job_J: job numbers of its own keep them apart
    first_job = random.SystemRandom().randrange(1, 60_000) * 1000
    lines = [
        "ClusterName=firstfaulttest",
        f"SlurmctldHost={host}(127.0.0.1)",
        "SlurmUser=slurm",
        "AuthType=auth/munge",
        f"AuthInfo=socket={socket_path}",
        f"StateSaveLocation={base}/state",
        f"SlurmdSpoolDir={base}/spool/%n",
        f"SlurmctldPidFile={base}/run/slurmctld.pid",
        f"SlurmdPidFile={base}/run/slurmd.%n.pid",
        f"SlurmctldLogFile={base}/log/slurmctld.log",
        f"SlurmdLogFile={base}/log/slurmd.%n.log",
        f"SlurmctldPort={controller}",
        f"FirstJobId={first_job}",
        "ProctrackType=proctrack/cgroup",
        "TaskPlugin=task/cgroup",
        "JobAcctGatherType=jobacct_gather/cgroup",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        "SchedulerParameters=batch_sched_delay=0,sched_interval=5,bf_interval=5",
        "PrologFlags=Alloc,Contain",
        "ReturnToService=2",
        "MpiDefault=none",
        f"KillWait={KILL_WAIT_S}",
        f"SlurmdTimeout={SLURMD_TIMEOUT_S}",
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=127.0.0.1",
        f"AccountingStoragePort={database}",
        # what Slurm calls a password is here the MUNGE socket for slurmdbd
        f"AccountingStoragePass={socket_path}",
        *(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2"
            f" RealMemory={NODE_MEMORY_MB}"
            for node, port in zip(NODES, nodes, strict=True)
        ),
        "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP DefMemPerCPU=1000",
        *([f"Epilog={epilog}"] if epilog is not None else []),
        *more,
    ]
    _write(base / "etc/slurm.conf", lines, 0o644)
    _write(
        base / "etc/cgroup.conf",
        ["ConstrainRAMSpace=yes", "ConstrainCores=no", "ConstrainSwapSpace=no", *_cgroup_lines()],
        0o644,
    )
    database_lines = [
        "AuthType=auth/munge",
        f"AuthInfo=socket={socket_path}",
        "DbdHost=localhost",
        f"DbdPort={database}",
        "SlurmUser=slurm",
        "StorageType=accounting_storage/mysql",
        "StorageHost=localhost",
        "StorageUser=slurm",
        "StoragePass=slurm",
        "StorageLoc=slurm_acct_db",
        f"LogFile={base}/log/slurmdbd.log",
        f"PidFile={base}/run/slurmdbd.pid",
    ]
    _write(base / "etc/slurmdbd.conf", database_lines, 0o600)
    shutil.chown(base / "etc/slurmdbd.conf", "slurm")


def _add_gpus(base: Path, gpus: Mapping[str, str]) -> None:
    conf, devices = base / "etc/slurm.conf", []
    text = f"{conf.read_text()}GresTypes=gpu\n"
    for node, kind in gpus.items():
        gres = f" Gres=gpu:{kind}:2" if kind else " Gres=gpu:2"
        text = re.sub(f"^NodeName={node} .*", rf"\g<0>{gres}", text, flags=re.M)
        of_type = f" Type={kind}" if kind else ""
        for number in (0, 1):
            device = base / f"run/{node}-gpu{number}"
            device.symlink_to("/dev/null")
            devices.append(f"NodeName={node} Name=gpu{of_type} File={device}")
    conf.write_text(text)
    _write(base / "etc/gres.conf", devices, 0o644)


def _cgroup_lines() -> list[str]:
    """The lines of cgroup.conf that this machine's mounts ask for; empty if none would do."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    for _, folder, kind, options, *_ in mounts:
        if kind == "cgroup" and "memory" in options.split(","):
            return ["CgroupPlugin=cgroup/v1", f"CgroupMountpoint={Path(folder).parent}"]
    if any(kind == "cgroup2" for _, _, kind, *_ in mounts):
        systemd = Path("/run/systemd/system").is_dir()
        return ["CgroupPlugin=cgroup/v2", *([] if systemd else ["IgnoreSystemd=yes"])]
    return []


def _start_munge(base: Path) -> None:
    folder = base / "munge"
    key = folder / "key"
    if not key.exists():
        key.touch(0o600)
        key.write_bytes(os.urandom(1024))
    for path in (folder, key):
        shutil.chown(path, "munge", "munge")
    folder.chmod(0o711)
    names = {"socket": "socket", "key-file": "key", "pid-file": "pid", "log-file": "log"}
    names["seed-file"] = "seed"
    options = [f"--{option}={folder / name}" for option, name in names.items()]
    _start(base, "munged", ["munged", "--foreground", *options], user="munge")
    probe = ("munge", "-n", f"--socket={folder / 'socket'}")
    _await(base, "munged", 20, lambda: bool(ask(base, *probe)))


def _start_database(base: Path) -> None:
    folder = base / "db"
    shutil.chown(folder, "mysql", "mysql")
    if not (folder / "mysql").is_dir():
        with (base / "log/db-install.log").open("wb") as log:
            subprocess.run(
                ["mariadb-install-db", "--no-defaults", "--user=mysql", f"--datadir={folder}"],
                env=environment(base),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=True,
                timeout=120,
            )
    options = ["--skip-networking", f"--datadir={folder}", f"--socket={folder}/sock"]
    options += [f"--pid-file={folder}/pid", "--innodb-lock-wait-timeout=900"]
    # a test's accounting need not survive a power cut
    options += ["--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M"]
    _start(base, "mariadbd", ["mariadbd", "--no-defaults", *options], user="mysql")
    sql = (
        "create database if not exists slurm_acct_db;"
        "create user if not exists slurm@localhost identified by 'slurm';"
        "grant all on slurm_acct_db.* to slurm@localhost;"
    )
    client = ("mariadb", "--no-defaults", f"--socket={folder}/sock", "-e", sql)
    _await(base, "mariadbd", 60, lambda: ask(base, *client) is not None)


def _start(base: Path, name: str, argv: list[str], *, user: str = "root") -> None:
    """Runs a daemon in the foreground of a session of its own and notes who it is."""
    program = shutil.which(argv[0], path=SEARCH)
    if program is None:
        raise ClusterError(f"{argv[0]} is not installed")
    account = pwd.getpwnam(user)
    with (base / "log" / f"{name}.out").open("ab") as log:
        child = subprocess.Popen(
            [program, *argv[1:]],
            env=environment(base),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=os.getgrouplist(user, account.pw_gid),
        )
    processes.note(base / "pids" / name, child.pid)
    # from here on the note stands for it, also for another process that stops the cluster
    child.returncode = 0


def _await(base: Path, name: str, deadline_s: float, ready: Callable[[], bool]) -> None:
    """Waits until ``ready`` says so; ClusterError is "not yet", a dead daemon is the end."""
    until = time.monotonic() + deadline_s
    said = ""
    while time.monotonic() < until:
        try:
            if ready():
                return
        except ClusterError as error:
            said = str(error)
        if not processes.alive(base / "pids" / name):
            said = "it ended"
            break
        time.sleep(0.1)
    tail = "".join(
        f"\n{file}: {line}"
        for file in sorted((base / "log").glob(f"{name}*"))
        for line in file.read_text(errors="replace").splitlines()[-5:]
    )
    raise ClusterError(f"{name} is not ready within {deadline_s} s: {said}{tail}")


def free_ports(count: int) -> list[int]:
    """``count`` TCP ports that nobody listens on, below those that the kernel hands out."""
    chosen: list[int] = []
    while len(chosen) < count:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            if port not in chosen:
                chosen.append(port)
    return chosen


def _write(path: Path, lines: list[str], mode: int) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))
    path.chmod(mode)


if __name__ == "__main__":
    what, folder, *more = sys.argv[1:]
    if what == "start":
        start(Path(folder).resolve(), epilog=Path(more[0]).resolve() if more else None)
        print(f"export SLURM_CONF={Path(folder).resolve()}/etc/slurm.conf")
    else:
        stop(Path(folder).resolve())
