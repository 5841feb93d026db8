"""A cluster and a daemon for what Slurm alone can tell: ends of which no record comes, requeues,
preemptions, an accounting that is away. Its jobs are tiny; nothing of torch."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from firstfault import demo
from firstfault.model.verdict import encode
from firstfault.store import listing
from firstfault.store.database import connect
from tests.cluster import jobs, processes, slurm_cluster
from tests.cluster.session import TOP, cluster_folder
from tests.cluster.site_parts import build_collector, write_command
from tests.fakes.slack import SlackServer

# A job with this comment runs no Epilog of ours, as where none is installed or a node died.
SILENT = "silent"
CRASHES = """python3 -c 'raise ValueError("expected 4 features")'"""
SWEEP_AFTER_S = 12
# Two GPUs on each node: of a type, and of none.
_GPUS = {"n1": "a100", "n2": "a100", "n3": "", "n4": ""}

_MORE = (
    "AccountingStorageTRES=gres/gpu,gres/gpu:a100",
    "PreemptType=preempt/partition_prio",
    "PreemptMode=CANCEL",
    "PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP DefMemPerCPU=1000 PriorityTier=10",
)
_OVER = ("COMPLETED", "FAILED", "NODE_FAIL", "CANCELLED", "PREEMPTED", "TIMEOUT", "BOOT_FAIL")


class Truth:
    """The running cluster. The daemon runs within `daemon`."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.slack = SlackServer()
        self.port = demo.free_port()
        self.log = base / "log/firstfault.log"

    def ask(self, *argv: str) -> str:
        """What one of Slurm's commands prints."""
        return slurm_cluster.ask(self.base, *argv).strip()

    def submit(self, script: str, *options: str) -> str:
        """Submits a job of the ordinary user; its number."""
        user = jobs.account()
        done = subprocess.run(
            ["/usr/bin/sbatch", "--parsable", "--mem=100", "--time=5", *options],
            env=slurm_cluster.environment(self.base),
            input=f"#!/bin/sh\n{script}\n",
            capture_output=True,
            text=True,
            timeout=30,
            cwd=self.base / "work",
            user=user.pw_uid,
            group=user.pw_gid,
            extra_groups=[],
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip().partition(";")[0]

    def cancel(self, job: str) -> None:
        """Cancels the job as its owner does."""
        user = jobs.account()
        subprocess.run(
            ["/usr/bin/scancel", job],
            env=slurm_cluster.environment(self.base),
            check=True,
            timeout=30,
            user=user.pw_uid,
            group=user.pw_gid,
            extra_groups=[],
        )

    def state(self, job: str) -> str:
        """The job's state as the controller knows it."""
        return self.ask("squeue", "-h", "-t", "all", "-j", job, "-o", "%T")

    def running(self, job: str) -> None:
        """Waits until the job runs."""
        self.wait(lambda: self.state(job) == "RUNNING", f"job {job} running")

    def over(self, job: str) -> str:
        """Waits until the job, and each task of an array, is over; the states' names."""
        self.wait(
            lambda: set(self.state(job).split()) <= set(_OVER), f"the end of {job}", seconds=120
        )
        return self.state(job)

    def wait(self, ready: Callable[[], bool], what: str, seconds: float = 60) -> None:
        """Waits until ``ready`` says so."""
        until = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > until:
                said = self.log.read_text(errors="replace")[-4000:] if self.log.exists() else ""
                raise TimeoutError(f"waited {seconds} s for {what}\n{said}")
            time.sleep(0.2)

    def lose(self, node: str, job: str) -> None:
        """Takes the node away, as a power cut would, and tells the controller at once."""
        slurm_cluster.kill_node(self.base, node, job)
        self.ask("scontrol", "update", f"nodename={node}", "state=down", "reason=test")

    def bring_back(self, node: str) -> None:
        """Starts the node again."""
        slurm_cluster.start_node(self.base, node)
        self.ask("scontrol", "update", f"nodename={node}", "state=resume")

    def stop_accounting(self) -> None:
        """Ends slurmdbd."""
        processes.kill(self.base / "pids/slurmdbd", grace_s=10)

    def start_accounting(self) -> None:
        """Starts slurmdbd again and waits until it answers."""
        slurm_cluster.start_accounting(self.base)

    def verdict(self, job: str, seconds: float = 60) -> dict[str, Any]:
        """The stored verdict once it holds Slurm's state."""
        found: dict[str, Any] | None = None

        def is_known() -> bool:
            nonlocal found
            found = self.stored(job)
            return found is not None and found["job"]["state"] is not None

        self.wait(is_known, f"a verdict on {job} with its state", seconds)
        assert found is not None
        return found

    def stored(self, job: str) -> dict[str, Any] | None:
        """The stored verdict on the job's last end, None where there is none."""
        with contextlib.closing(connect(self.store)) as database:
            found = listing.current_verdicts(database, job, any_cluster=True)
        return json.loads(encode(found[0].verdict)) if found else None

    def page(self, path: str) -> str:
        """What the daemon's pages answer."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
            text: str = answer.read().decode()
        return text

    def messages(self, job: str) -> list[str]:
        """What was posted of the job, as JSON."""
        texts = [json.dumps(message.payload) for message in list(self.slack.messages)]
        return [text for text in texts if job in text]

    def posted(self, job: str, *words: str, seconds: float = 60) -> str:
        """Waits for a message on the job with these words."""

        def fitting() -> list[str]:
            return [text for text in self.messages(job) if all(word in text for word in words)]

        self.wait(lambda: bool(fitting()), f"a message on {job} with {words}", seconds)
        return fitting()[0]

    def said(self, *words: str) -> list[str]:
        """The lines of the daemon's log with all these words."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if all(word in line for word in words)]

    @property
    def store(self) -> str:
        """The URL of the daemon's store."""
        return f"sqlite:///{self.base}/firstfault.db"

    @property
    def config(self) -> Path:
        """The daemon's configuration."""
        return self.base / "etc/firstfault.toml"

    @contextlib.contextmanager
    def daemon(self) -> Iterator[None]:
        """The daemon, for the length of the block."""
        begun = len(self.said("event=started")) if self.log.exists() else 0
        with demo.serving(self.config, self.log):
            self.wait(lambda: len(self.said("event=started")) > begun, "the daemon")
            yield


@contextlib.contextmanager
def running() -> Iterator[Truth]:
    """A cluster with the Epilog; all of it ends with the block."""
    with cluster_folder() as base:
        truth = Truth(base)
        epilog = _install(truth)
        # After a requeue a job waits for as long as its credential holds: two minutes by default.
        auth = f"AuthInfo=socket={base}/munge/socket,cred_expire=5"
        slurm_cluster.start(base, epilog=epilog, more=(*_MORE, auth), gpus=_GPUS)
        with truth.slack:
            _configure(truth)
            yield truth


def _install(truth: Truth) -> Path:
    base = truth.base
    base.chmod(0o755)
    for name in ("work", "etc", "queue"):
        (base / name).mkdir()
    user = jobs.account()
    (base / "work").chmod(0o777)
    assert user.pw_uid
    (base / "records").mkdir(mode=0o770)
    pyz = build_collector(base)
    (base / "etc/epilog.conf").write_text(
        f"FIRSTFAULT_QUEUE={base}/queue\n"
        "FIRSTFAULT_START=detach\n"
        "FIRSTFAULT_PYTHON=/usr/bin/python3\n"
        f"FIRSTFAULT_PYZ={pyz}\n"
        f"FIRSTFAULT_SPOOL={base}/records\n"
    )
    script = base / "etc/epilog.sh"
    script.write_text(
        "#!/bin/sh\n"
        f'[ "$SLURM_JOB_COMMENT" != {SILENT} ] || exit 0\n'
        f"FIRSTFAULT_CONF={base}/etc/epilog.conf\n"
        "export FIRSTFAULT_CONF\n"
        f"exec {TOP}/epilog/firstfault-epilog\n"
    )
    script.chmod(0o755)
    return script


def _configure(truth: Truth) -> None:
    base = truth.base
    sacct = write_command(base, base / "etc/sacct", TZ="UTC")
    truth.config.write_text(
        "allow_root = true\n"
        f'[spool]\ndir = "{base}/records"\n'
        f'[store]\nurl = "{truth.store}"\n'
        f'[slurm]\nsource = "sacct"\nsacct = "{sacct}"\n'
        f"sweep_s = 2.0\nsweep_after_s = {SWEEP_AFTER_S}.0\n"
        "[judge]\nsettle_s = 8.0\n"
        f'[report]\ndir = "{base}/reports"\n'
        f'[slack]\nwebhook = "{truth.slack.url}"\n'
        f"[web]\nport = {truth.port}\n"
    )
