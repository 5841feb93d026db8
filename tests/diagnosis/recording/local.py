"""Runs torchrun agents as if on several nodes: each in a host name, mounts and an address of its own.

Needs root. One run has a network namespace with 10.1.0.11, 10.1.0.12, ... on its loopback, and
each agent a host name (n1, n2, ...), so that runs side by side do not meet.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.jobs import kernel_log, kernel_offset_s

HERE = Path(__file__).resolve().parent
BASE = Path("/tmp/ff-recording")
VENVS = {"2.13.0": Path("/opt/firstfault-tests/torch-venv")}
DEADLINE_S = 240
USER = 1001


@dataclass(frozen=True)
class Scenario:
    """One run with its fault, and what is true of it.

    ``setup`` is shell that root runs in the node's mounts before the agent starts, ``limits`` what
    the user's shell runs there; both see $NODE (n1, n2, ...). ``act`` is done from outside once all
    ranks are at the fault's step: ("rank", R, SIGNAL) or ("agent", NODE, SIGNAL). ``rank`` and
    ``host`` are what the kept evidence tells; ``keep`` is the evidence: "console" (one for all
    agents), "consoles" (one for each), "ranks", "kernel" (of the failing host), "dmesg" (likewise,
    as dmesg -T prints it).
    """

    name: str
    torch: str
    kind: str
    cause: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    rank: int | None = None
    host: str | None = None
    hosts: tuple[str, ...] = ()
    also: tuple[int, ...] = ()
    confidence: str | None = "confirmed"
    key: str | None = None
    teaches: str = ""
    nodes: int = 2
    nproc: int = 1
    static: bool = True
    tee: bool = False
    record: bool = False
    options: str = ""
    script: str = "train.py"
    launcher: str = "/opt/venv/bin/torchrun"
    master: str = "10.1.0.11"
    absent: tuple[str, ...] = ()
    setup: str = ""
    limits: str = ""
    act: tuple[str, int | str, str] | None = None
    keep: tuple[str, ...] = ("console",)
    uid: int = USER
    memory_mb: int | None = None
    late_s: float = 0


def venv(torch: str) -> Path:
    """Where a version of torch is installed."""
    return VENVS.get(torch, Path(f"/opt/ff-torch-{torch}"))


def folder(name: str) -> Path:
    """Where a run's files lie."""
    return BASE / name


def run(scenario: Scenario) -> Path:
    """Runs the scenario to its end and returns its folder, with what it left in ``kept``."""
    top = folder(scenario.name)
    shutil.rmtree(top, ignore_errors=True)
    for path in (top / "work/data", top / "truth", top / "kept"):
        path.mkdir(parents=True)
    for file in ("train.py", "faults.py", "spawn.py", "lightning_train.py"):
        shutil.copy(HERE / file, top / "work" / file)
    for path in (top / "work", top / "work/data", top / "truth"):
        os.chown(path, scenario.uid, scenario.uid)
    _write_scripts(scenario, top)
    started_at = time.time()
    argv = ["unshare", "--net", "--mount", "bash", str(top / "run.sh")]
    with (top / "harness.log").open("wb") as log:
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            _watch(scenario, top, child)
        finally:
            _end(scenario, child)
    _keep(scenario, top, started_at)
    return top


def roster(top: Path) -> dict[int, dict[str, object]]:
    """Who really ran where, by global rank."""
    found = [json.loads(file.read_text()) for file in (top / "truth").glob("rank-*.json")]
    return {who["rank"]: who for who in found}


def dmesg(since: float) -> list[str]:
    """What ``dmesg -T`` prints, from ``since`` (seconds since the epoch)."""
    plain, dated = (
        subprocess.run(argv, capture_output=True, text=True, errors="replace").stdout.splitlines()
        for argv in (["dmesg"], ["dmesg", "-T"])
    )
    first = since - kernel_offset_s()
    stamps = [float(line[1:].partition("]")[0]) for line in plain]
    return [line for line, stamp in zip(dated, stamps, strict=False) if stamp >= first]


def _write_scripts(scenario: Scenario, top: Path) -> None:
    names = [f"n{number + 1}" for number in range(scenario.nodes)]
    hosts = ["127.0.0.1 localhost"]
    hosts += [f"10.1.0.{11 + number} {name}" for number, name in enumerate(names)]
    (top / "hosts").write_text("\n".join(hosts) + "\n")
    present = [name for name in names if name not in scenario.absent]
    lines = ["ip link set lo up"]
    lines += [f"ip addr add 10.1.0.{11 + n}/32 dev lo" for n in range(scenario.nodes)]
    lines += [f"mount --bind {top}/hosts /etc/hosts"]
    lines += [
        f"unshare --uts --mount bash {top}/node.sh {n} & sleep {scenario.late_s}" for n in present
    ]
    (top / "run.sh").write_text("\n".join([*lines, "wait", ""]))
    cgroup = _cgroup(scenario)
    node = [
        "NODE=$1",
        "hostname $NODE",
        f"echo $$ >{top}/agent-$NODE.pid",
        *([f"echo $$ >{cgroup}/cgroup.procs"] if cgroup else []),
        "mount -t tmpfs tmpfs /home",
        "mkdir -p /home/alice/train",
        f"mount --bind {top}/work /home/alice/train",
        f"mount --bind {venv(scenario.torch)} /opt/venv",
        "cd /home/alice/train",
        scenario.setup,
        f"exec setpriv --reuid={scenario.uid} --regid={scenario.uid} --clear-groups"
        f" bash {top}/agent.sh $NODE >>{top}/$NODE.out 2>&1",
    ]
    console = "console" if "console" in scenario.keep else "$NODE"
    node[-1] = node[-1].replace(f"{top}/$NODE.out", f"{top}/{console}.out")
    (top / "node.sh").write_text("\n".join(node) + "\n")
    (top / "agent.sh").write_text("\n".join(_agent(scenario, top)) + "\n")


def _agent(scenario: Scenario, top: Path) -> list[str]:
    env = {"TRUTH": str(top / "truth"), "OMP_NUM_THREADS": "1", "HOME": "/home/alice"}
    env |= {"USER": "alice", "LOGNAME": "alice", "PATH": "/opt/venv/bin:/usr/bin:/bin"}
    env |= {"RECORD": "1" if scenario.record else "0", "GLOO_SOCKET_IFNAME": "lo"} | scenario.env
    argv = f"{scenario.launcher} --nnodes={scenario.nodes} --nproc_per_node={scenario.nproc}"
    if scenario.nodes == 1 and not scenario.static:
        argv += " --standalone"
    elif scenario.static:
        argv += f" --node_rank=$((${{NODE#n}} - 1)) --master_addr={scenario.master}"
        argv += " --master_port=29500"
    else:
        argv += f" --rdzv_backend=c10d --rdzv_endpoint={scenario.master}:29500 --rdzv_id=7781"
    if scenario.tee:
        argv += " --tee=3"
    if "ranks" in scenario.keep:
        argv += " --log_dir=ranks/$NODE" + ("" if scenario.tee else " --redirects=3")
    return [
        "NODE=$1",
        *(f"export {name}='{value}'" for name, value in env.items()),
        scenario.limits,
        f"exec /opt/venv/bin/python {argv} {scenario.options} {scenario.script}",
    ]


def _cgroup(scenario: Scenario) -> Path | None:
    if scenario.memory_mb is None:
        return None
    path = Path(f"/sys/fs/cgroup/memory/user.slice/user-{scenario.uid}.slice/{scenario.name}.scope")
    path.mkdir(parents=True, exist_ok=True)
    (path / "memory.limit_in_bytes").write_text(str(scenario.memory_mb << 20))
    return path


def _watch(scenario: Scenario, top: Path, child: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + DEADLINE_S
    acted = scenario.act is None
    ranks = range((scenario.nodes - len(scenario.absent)) * scenario.nproc)
    while child.poll() is None and time.monotonic() < until:
        time.sleep(0.2)
        if acted or not all((top / f"truth/ready-{rank}").exists() for rank in ranks):
            continue
        assert scenario.act is not None
        what, who, name = scenario.act
        if what == "rank":
            pid = int(str(roster(top)[int(who)]["pid"]))
        else:
            pid = int((top / f"agent-{who}.pid").read_text())
        os.kill(pid, signal.Signals[name])
        acted = True


def _end(scenario: Scenario, child: subprocess.Popen[bytes]) -> None:
    mark = f"TRUTH={folder(scenario.name)}/truth".encode()
    for _ in range(3):
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark in path.read_bytes().split(b"\0"):
                    os.kill(int(path.parent.name), signal.SIGKILL)
        time.sleep(0.2)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=5)
    if child.poll() is None:
        child.kill()


def _keep(scenario: Scenario, top: Path, started_at: float) -> None:
    kept = top / "kept"
    for file in top.glob("*.out"):
        shutil.copy(file, kept / f"{file.stem}.log")
    if (top / "work/ranks").is_dir() and "ranks" in scenario.keep:
        shutil.copytree(top / "work/ranks", kept / "ranks")
    host = scenario.host
    if host is None and scenario.rank is not None and scenario.rank in roster(top):
        host = str(roster(top)[scenario.rank]["host"])
    if {"kernel", "dmesg"} & set(scenario.keep):
        (kept / str(host)).mkdir()
        lines = kernel_log(started_at)
        if "dmesg" in scenario.keep:
            lines = dmesg(started_at)
        (kept / str(host) / "dmesg.txt").write_text("".join(f"{line}\n" for line in lines))
