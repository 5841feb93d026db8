"""One cluster with its jobs, its collector and its daemon, for as long as the tests need them."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster import jobs, processes, slurm_cluster
from tests.cluster.jobs import Run
from tests.cluster.scenarios import SCENARIOS

TOP = Path(__file__).resolve().parents[2]
_PREFIX = "firstfault-cluster-"
_JOB_DEADLINE_S = 420


@dataclass
class Session:
    """A running cluster. ``hit`` is what the acts from outside hit, by the scenario's name."""

    base: Path
    runs: dict[str, Run] = field(default_factory=dict)
    hit: dict[str, str] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    failure: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)

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


@contextlib.contextmanager
def running(names: Iterable[str]) -> Iterator[Session]:
    """A cluster on which the named scenarios' jobs are under way; all of it ends with the block."""
    sweep()
    base = Path(tempfile.mkdtemp(prefix=_PREFIX, dir="/tmp"))
    session = Session(base)
    watcher = threading.Thread(target=_watch, args=(session,), daemon=True)
    try:
        processes.note(base / "owner", os.getpid())
        epilog = _install_epilog(session)
        slurm_cluster.start(base, epilog=epilog)
        _submit(session, set(names))
        watcher.start()
        yield session
    finally:
        session.done.set()
        if watcher.is_alive():
            watcher.join(timeout=10)
        slurm_cluster.stop(base)
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
    pyz = base / "etc/collector.pyz"
    subprocess.run(
        [sys.executable, "-I", str(TOP / "epilog/build-pyz"), "-o", str(pyz)],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=60,
    )
    (base / "etc/epilog.conf").write_text(
        f"FIRSTFAULT_QUEUE={base}/queue\n"
        "FIRSTFAULT_START=detach\n"
        "FIRSTFAULT_PYTHON=/usr/bin/python3\n"
        f"FIRSTFAULT_PYZ={pyz}\n"
        "# ---\n"
        f"FIRSTFAULT_SPOOL={session.spool}\n"
        f"FIRSTFAULT_RANK_LOGS={base}/work/*/ranks/%N/%j_*\n"
    )
    script = base / "etc/epilog.sh"
    script.write_text(
        "#!/bin/sh\n"
        f"/usr/bin/env >{base}/epilog/$SLURM_JOB_ID.$SLURMD_NODENAME.txt\n"
        f"FIRSTFAULT_CONF={base}/etc/epilog.conf\n"
        "export FIRSTFAULT_CONF\n"
        f"exec {TOP}/epilog/firstfault-epilog\n"
    )
    script.chmod(0o755)
    return script


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
