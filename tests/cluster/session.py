"""One cluster with its jobs, its collector and its daemon, for as long as the tests need them."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firstfault import demo
from firstfault.store import evidence
from tests.cluster import jobs, processes, slurm_cluster
from tests.cluster.jobs import Run
from tests.cluster.scenarios import SCENARIOS
from tests.cluster.site_parts import build_collector, write_command
from tests.fakes.slack import Message, SlackServer

TOP = Path(__file__).resolve().parents[2]
_PREFIX = "firstfault-cluster-"
_JOB_DEADLINE_S = 420
_VERDICT_DEADLINE_S = 60
# no more than KillWait, ten seconds and a moment
_SETTLE_S = 20


@dataclass
class Session:
    """A running cluster. ``hit`` is what the acts from outside hit, by the scenario's name."""

    base: Path
    runs: dict[str, Run] = field(default_factory=dict)
    hit: dict[str, str] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    failure: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)
    slack: SlackServer = field(default_factory=SlackServer)
    port: int = field(default_factory=demo.free_port)
    intake: int = field(default_factory=demo.free_port)
    _verdicts: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def spool(self) -> Path:
        """Where the collector leaves its records."""
        return self.base / "records"

    def finished(self, name: str) -> Run:
        """The scenario's run, once its job has ended in the state that it should end in."""
        run = self.runs[name]
        until = time.monotonic() + _JOB_DEADLINE_S
        while name not in self.ended:
            if self.failure is not None:
                raise RuntimeError("the jobs are no longer watched") from self.failure
            if time.monotonic() > until:
                raise TimeoutError(f"job {run.job} ({name}) did not end in {_JOB_DEADLINE_S} s")
            time.sleep(0.2)
        if self.ended[name] != run.scenario.state:
            tail = run.output.read_text(errors="replace")[-3000:] if run.output.exists() else ""
            raise AssertionError(f"{name} ended {self.ended[name]}, not as it should:\n{tail}")
        return run

    def verdict(self, name: str) -> dict[str, Any]:
        """What the daemon stored of the job, once it knows how Slurm says that the job ended."""
        if name not in self._verdicts:
            run = self.finished(name)
            until = time.monotonic() + _VERDICT_DEADLINE_S
            while (found := self._stored(run)) is None or found["job"]["state"] is None:
                if time.monotonic() > until:
                    log = (self.base / "log/firstfault.log").read_text(errors="replace")
                    raise TimeoutError(f"no final verdict on {name}: {found}\n{log[-3000:]}")
                time.sleep(0.3)
            self._verdicts[name] = found
            if "FIRSTFAULT_KEEP_RUNS" in os.environ:
                self._keep(run, Path(os.environ["FIRSTFAULT_KEEP_RUNS"]) / name)
        return self._verdicts[name]

    def messages(self, name: str) -> list[Message]:
        """What was posted about the job so far, the first message first."""
        job = self.runs[name].job
        return [m for m in list(self.slack.messages) if job in json.dumps(m.payload)]

    def message(self, name: str) -> Message:
        """The first message with the final verdict's cause, rank and host; waits for it."""
        verdict = self.verdict(name)
        rank, host = verdict["initiator"]["rank"], verdict["initiator"]["host"]
        wanted = [verdict["cause"]["id"]]
        wanted += [] if rank is None else [f"rank {rank} "]
        wanted += [] if host is None else [host]
        until = time.monotonic() + _VERDICT_DEADLINE_S
        while True:
            posted = self.messages(name)
            for message in posted:
                said = json.dumps(message.payload, ensure_ascii=False).lower()
                if all(word in said for word in wanted):
                    return message
            if time.monotonic() > until:
                texts = [message.payload["text"] for message in posted]
                raise TimeoutError(f"{wanted} not posted, but {texts}; {self.slack.refused}")
            time.sleep(0.1)

    def records(self, name: str) -> list[Path]:
        """The job's evidence records as the daemon keeps them: beside the spool when it has read them
        there, in its store alone when they were sent."""
        run = self.runs[name]
        job = run.job
        if run.scenario.pushes:
            return sorted(self._sent(job))
        return sorted(p for p in self.spool.rglob("*.json*") if re.search(rf"\b{job}\b", p.name))

    def _sent(self, job: str) -> Iterator[Path]:
        folder = self.base / "sent"
        folder.mkdir(exist_ok=True)
        query = "select record_id, node, encoding, body from evidence where job_key in ({})".format(
            "select key from jobs where job = ?"
        )
        url = f"file:{self.base}/firstfault.db?mode=ro"
        with contextlib.closing(sqlite3.connect(url, uri=True)) as store:
            rows = store.execute(query, (job,)).fetchall()
        for row in rows:
            record = evidence.Packed(*row)
            path = folder / f"cluster-{job}-{record.node}-{record.record_id[:16]}.json.gz"
            path.write_bytes(gzip.compress(evidence.unpacked(record)))
            yield path

    def page(self, name: str) -> Path:
        """The report as a page."""
        job = self.runs[name].job
        pages = [p for p in (self.base / "reports").rglob("*.html") if job in str(p)]
        return max(pages, key=lambda path: path.stat().st_mtime)

    def named_host(self, name: str) -> str | None:
        """The host that is to be named: the failing rank's, the one that died, the script's."""
        run = self.runs[name]
        if run.scenario.act == "kill-node":
            return self.hit[name]
        if run.scenario.on_batch_host:
            argv = ("sacct", "-nPX", "-j", run.job, "-o", "NodeList")
            return slurm_cluster.ask(self.base, *argv).strip()
        return run.host

    def accounting(self, name: str) -> str:
        """What sacct says of the job."""
        return slurm_cluster.ask(self.base, "sacct", "-P", "-j", self.runs[name].job)

    def _stored(self, run: Run) -> dict[str, Any] | None:
        try:
            text = demo.report(self.base / "etc/firstfault.toml", run.job, "json")
        except demo.DemoError:
            return None
        found: dict[str, Any] = json.loads(text)
        return found

    def _keep(self, run: Run, into: Path) -> None:
        name = run.scenario.name
        jobs.keep(self.base, run, into, state=self.ended[name], hit=self.hit.get(name))
        (into / "records").mkdir()
        for path in self.records(name):
            shutil.copy(path, into / "records")
        (into / "verdict.json").write_text(json.dumps(self._verdicts[name], indent=1) + "\n")
        posted = [message.payload for message in self.messages(name)]
        (into / "slack.json").write_text(json.dumps(posted, indent=1) + "\n")


@contextlib.contextmanager
def running(names: Iterable[str]) -> Iterator[Session]:
    """A cluster on which the named scenarios' jobs are under way; all of it ends with the block."""
    with cluster_folder() as base:
        session = Session(base)
        watcher = threading.Thread(target=_watch, args=(session,), daemon=True)
        try:
            epilog = _install_epilog(session)
            slurm_cluster.start(base, epilog=epilog)
            with session.slack, demo.serving(_configure(session), base / "log/firstfault.log"):
                _submit(session, set(names))
                watcher.start()
                yield session
        finally:
            session.done.set()
            if watcher.is_alive():
                watcher.join(timeout=10)


@contextlib.contextmanager
def cluster_folder() -> Iterator[Path]:
    """A folder for a cluster. When the block ends, so does the cluster started in it."""
    sweep()
    base = Path(tempfile.mkdtemp(prefix=_PREFIX, dir="/tmp"))
    try:
        processes.note(base / "owner", os.getpid())
        yield base
    finally:
        slurm_cluster.stop(base)
        for folder in base.glob("work/*/small"):
            subprocess.run(["/bin/umount", "--lazy", folder], stderr=subprocess.DEVNULL)
        if "FIRSTFAULT_KEEP_CLUSTER" not in os.environ:
            shutil.rmtree(base, ignore_errors=True)


def sweep() -> None:
    """Ends and removes what a killed run of these tests left behind."""
    for base in Path("/tmp").glob(f"{_PREFIX}*"):
        found = base.lstat()
        ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
        # a folder without an owner may be one that is being made just now
        if ours and (base / "owner").exists() and not processes.alive(base / "owner"):
            slurm_cluster.stop(base)
            shutil.rmtree(base, ignore_errors=True)


def _install_epilog(session: Session) -> Path:
    """The real Epilog script and collector, with a configuration of their own."""
    base = session.base
    base.chmod(0o755)
    for name in ("epilog", "work", "etc", "queue"):
        (base / name).mkdir()
    session.spool.mkdir(mode=0o770)
    pyz = build_collector(base)
    ways = {
        "writes": f"FIRSTFAULT_SPOOL={session.spool}\n",
        jobs.PUSHES: f"FIRSTFAULT_SPOOL={base}/unsent\n"
        f"FIRSTFAULT_DAEMON=http://127.0.0.1:{session.intake}\n"
        f"FIRSTFAULT_MUNGE_SOCKET={base}/munge/socket\n",
    }
    for way, keys in ways.items():
        (base / f"etc/{way}.conf").write_text(
            f"FIRSTFAULT_QUEUE={base}/queue/{way}\n"
            "FIRSTFAULT_START=detach\n"
            "FIRSTFAULT_PYTHON=/usr/bin/python3\n"
            f"FIRSTFAULT_PYZ={pyz}\n"
            f"# ---\n{keys}"
            f"FIRSTFAULT_RANK_LOGS={base}/work/*/ranks/%N/%j_*\n"
        )
    script = base / "etc/epilog.sh"
    script.write_text(
        "#!/bin/sh\n"
        f"/usr/bin/env >{base}/epilog/$SLURM_JOB_ID.$SLURMD_NODENAME.txt\n"
        f"FIRSTFAULT_CONF={base}/etc/writes.conf\n"
        f'[ "$SLURM_JOB_COMMENT" != {jobs.PUSHES} ] || '
        f"FIRSTFAULT_CONF={base}/etc/{jobs.PUSHES}.conf\n"
        "export FIRSTFAULT_CONF\n"
        f"exec {TOP}/epilog/firstfault-epilog\n"
    )
    script.chmod(0o755)
    return script


def _configure(session: Session) -> Path:
    """The daemon's configuration: everything in the cluster's folder, Slack on loopback."""
    base = session.base
    sacct = write_command(base, base / "etc/sacct", TZ="UTC")
    config = base / "etc/firstfault.toml"
    config.write_text(
        "allow_root = true\n"
        f'[spool]\ndir = "{session.spool}"\nkeep = true\n'
        f"[intake]\nenabled = true\nport = {session.intake}\n"
        f'munge_socket = "{base}/munge/socket"\n'
        f'[store]\nurl = "sqlite:///{base}/firstfault.db"\n'
        f'[slurm]\nsource = "sacct"\nsacct = "{sacct}"\n'
        f"[judge]\nsettle_s = {_SETTLE_S}\n"
        f'[report]\ndir = "{base}/reports"\n'
        f'[slack]\nwebhook = "{session.slack.url}"\n'
        f'[web]\nhost = "127.0.0.1"\nport = {session.port}\n'
    )
    return config


def _submit(session: Session, names: set[str]) -> None:
    for scenario in SCENARIOS:
        if scenario.name in names:
            others = [run.job for run in session.runs.values()]
            run = jobs.submit(session.base, scenario, after=others if scenario.alone else [])
            session.runs[scenario.name] = run


def _watch(session: Session) -> None:
    """Acts upon the jobs when their moment has come and notes how each ends."""
    try:
        while not session.done.is_set() and len(session.ended) < len(session.runs):
            for name, run in session.runs.items():
                if name in session.ended:
                    continue
                if run.scenario.act is not None and name not in session.hit:
                    hit = jobs.act(session.base, run)
                    if hit is not None:
                        session.hit[name] = hit
                state = jobs.state(session.base, run)
                if state is not None:
                    session.ended[name] = state
            session.done.wait(0.5)
    except (OSError, slurm_cluster.ClusterError, subprocess.SubprocessError, LookupError) as error:
        session.failure = error
