"""Ends that leave zero exit codes, on a real cluster whose nodes send what the daemon wants.

A kernel log that stays empty stands in for the machine's, in which other tests' jobs leave
faults, except where the kernel's word is what is tested.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from firstfault import demo
from firstfault.model import evidence
from firstfault.store import evidence as stored
from firstfault.store.database import connect
from firstfault.store.schema import jobs as jobs_table
from tests.cluster import jobs, slurm_cluster
from tests.cluster.jobs import Run
from tests.cluster.scenarios import Scenario
from tests.cluster.session import TOP, cluster_folder
from tests.cluster.site_parts import build_collector, write_command

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

FOR_EVER = {"STEPS": "100000"}
# For a job with this comment the kernel's own log is read.
HEARS = jobs.PUSHES


class Site:
    """A cluster whose nodes push, with a real daemon that asks its accounting."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.intake = demo.free_port()
        self.config = base / "etc/firstfault.toml"

    def install(self) -> Path:
        """The Epilog script; all that a node needs lies in the cluster's folder."""
        base = self.base
        for name in ("etc", "work"):
            (base / name).mkdir()
        pyz = build_collector(base)
        (base / "etc/silent").touch()
        for name, log in (("deaf", f"{base}/etc/silent"), (HEARS, "/dev/kmsg")):
            (base / f"etc/{name}.conf").write_text(
                f"FIRSTFAULT_QUEUE={base}/queue-{name}\n"
                "FIRSTFAULT_START=detach\n"
                "FIRSTFAULT_PYTHON=/usr/bin/python3\n"
                f"FIRSTFAULT_PYZ={pyz}\n"
                "# ---\n"
                f"FIRSTFAULT_SPOOL={base}/unsent-{name}\n"
                f"FIRSTFAULT_DAEMON=http://127.0.0.1:{self.intake}\n"
                f"FIRSTFAULT_MUNGE_SOCKET={base}/munge/socket\n"
                f"FIRSTFAULT_KERNEL_LOG={log}\n"
                "FIRSTFAULT_PENDING_ASK_S=3\n"
                f"FIRSTFAULT_RANK_LOGS={base}/work/*/ranks/%N/%j_*\n"
            )
        script = base / "etc/epilog.sh"
        script.write_text(
            "#!/bin/sh\n"
            f"FIRSTFAULT_CONF={base}/etc/deaf.conf\n"
            f'[ "$SLURM_JOB_COMMENT" != {HEARS} ] || FIRSTFAULT_CONF={base}/etc/{HEARS}.conf\n'
            "export FIRSTFAULT_CONF\n"
            f"exec {TOP}/epilog/firstfault-epilog\n"
        )
        script.chmod(0o755)
        return script

    def configure(self) -> None:
        base = self.base
        sacct = write_command(base, base / "etc/sacct", TZ="UTC")
        self.config.write_text(
            "allow_root = true\n"
            f'[spool]\ndir = "{base}/records"\n'
            f"[intake]\nenabled = true\nport = {self.intake}\n"
            f'munge_socket = "{base}/munge/socket"\n'
            f'[store]\nurl = "sqlite:///{base}/firstfault.db"\n'
            f'[slurm]\nsource = "sacct"\nsacct = "{sacct}"\n'
            f'[report]\ndir = "{base}/reports"\n'
            "[web]\nenabled = false\n"
        )

    def ask(self, *argv: str) -> str:
        return slurm_cluster.ask(self.base, *argv).strip()

    def submit(self, scenario: Scenario) -> Run:
        return jobs.submit(self.base, scenario, after=[])

    def wait(self, done: Callable[[], bool], seconds: float = 240) -> None:
        stop_at = time.monotonic() + seconds
        while not done():
            log = (self.base / "log/firstfault.log").read_text(errors="replace")
            assert time.monotonic() < stop_at, self.ask("squeue", "-a") + log[-2000:]
            time.sleep(0.3)

    def all_ready(self, run: Run) -> None:
        """Waits until every rank is at work."""
        ranks = range(2 * run.scenario.nodes)
        self.wait(lambda: all((run.folder / "truth" / f"ready-{r}").exists() for r in ranks))

    def ended(self, run: Run) -> str:
        """The state in which the job ended; waits for it."""
        self.wait(lambda: jobs.state(self.base, run) is not None)
        return jobs.state(self.base, run) or ""

    def records(self, run: Run) -> list[evidence.EvidenceRecord]:
        """What the daemon has of the job."""
        database = connect(f"sqlite:///{self.base}/firstfault.db")
        with database.engine.connect() as connection:
            query = sa.select(jobs_table.c.key).where(jobs_table.c.job == run.job)
            keys = list(connection.execute(query).scalars())
        packed = [record for key in keys for record in stored.packed(database, key)]
        return [evidence.decode(stored.unpacked(record)) for record in packed]

    def awaited(self, run: Run) -> list[evidence.EvidenceRecord]:
        """The records of all the job's nodes."""
        self.wait(lambda: len(self.records(run)) >= run.scenario.nodes, 90)
        return self.records(run)

    def verdict(self, run: Run, cause: str) -> str:
        """The stored verdict's cause; waits for ``cause``, for it may be revised."""
        said: list[str] = []

        def is_said() -> bool:
            try:
                found = json.loads(demo.report(self.config, run.job, "json"))
            except demo.DemoError:
                return False
            said.append(found["cause"]["id"])
            return said[-1] == cause

        self.wait(is_said, 90)
        return said[-1]

    def pending(self) -> list[str]:
        return [path.name for path in self.base.glob("unsent-*/pending/[0-9]*")]


@contextmanager
def running(*more: str) -> Iterator[Site]:
    """A site on which preemption is possible; ``more`` are lines of slurm.conf."""
    with cluster_folder() as base:
        base.chmod(0o755)
        site = Site(base)
        epilog = site.install()
        preemption = (
            "PreemptType=preempt/partition_prio",
            "PreemptMode=CANCEL",
            "PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP DefMemPerCPU=1000 PriorityTier=9",
        )
        slurm_cluster.start(base, epilog=epilog, more=(*preemption, *more))
        site.configure()
        with demo.serving(site.config, base / "log/firstfault.log"):
            yield site


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with running() as found:
        yield found


def logs_of_ranks(records: list[evidence.EvidenceRecord]) -> dict[str, int]:
    """How many ranks' logs each node sent."""
    return {
        record.node: len({file.name for file in record.files if file.what == "rank-log"})
        for record in records
    }


def quiet(records: list[evidence.EvidenceRecord]) -> bool:
    """Whether Slurm left the nodes nothing but zeros."""
    codes = ("SLURM_JOB_EXIT_CODE", "SLURM_JOB_DERIVED_EC")
    return all(record.environment[code] == "0" for record in records for code in codes)


def time_limit(site: Site) -> None:
    """A job runs into its time limit: its ranks' logs arrive, and the verdict with them."""
    run = site.submit(
        Scenario("time-limit", "slurm.time-limit", environment=FOR_EVER, time_limit="1")
    )

    state = site.ended(run)
    records = site.awaited(run)

    assert (state, quiet(records)) == ("TIMEOUT", True)
    assert all(count >= 2 for count in logs_of_ranks(records).values())
    assert site.verdict(run, "slurm.time-limit") == "slurm.time-limit"


def test_a_time_limit_delivers_the_ranks_logs_of_all_nodes(site: Site) -> None:
    time_limit(site)


@pytest.mark.soak
def test_a_time_limit_with_slurms_own_killwait_delivers_them_too() -> None:
    with running("KillWait=30") as patient:
        time_limit(patient)


def test_a_cancelled_hang_delivers_the_ranks_logs_of_all_nodes(site: Site) -> None:
    run = site.submit(Scenario("hang", "slurm.cancelled", environment=FOR_EVER))
    site.all_ready(run)
    site.ask("scancel", run.job)

    records = site.awaited(run)

    assert site.ended(run) == "CANCELLED"
    assert quiet(records)
    assert all(count >= 2 for count in logs_of_ranks(records).values())


def test_a_preempted_job_delivers_the_ranks_logs_of_all_nodes(site: Site) -> None:
    run = site.submit(Scenario("low", "slurm.preempted", nodes=4, environment=FOR_EVER))
    site.all_ready(run)
    site.ask(
        "sbatch", "-p", "high", "-N4", "--exclusive", "--mem=4000", "--wrap=true", "-o/dev/null"
    )

    state = site.ended(run)
    records = site.awaited(run)

    assert (state, quiet(records)) == ("PREEMPTED", True)
    assert all(count >= 2 for count in logs_of_ranks(records).values())


def test_a_kill_for_memory_under_zero_codes_is_sent_without_a_question(site: Site) -> None:
    run = site.submit(Scenario("eaten", "memory.cgroup-oom", environment=FOR_EVER, pushes=True))
    site.all_ready(run)
    groups = Path("/sys/fs/cgroup/memory")
    (group,) = [
        path.parent
        for path in (groups if groups.is_dir() else groups.parent).glob(
            f"**/job_{run.job}/step_0/**/cgroup.procs"
        )
        if str(run.roster[0]["pid"]) in path.read_text().split()
    ]
    eater = "open('{}/cgroup.procs', 'w').write('0'); b'x' * (4 << 30)"
    subprocess.run([sys.executable, "-c", eater.format(group)], check=False)
    site.ask("scancel", run.job)

    records = site.awaited(run)

    heard = [file for record in records for file in record.files if file.what == "kernel"]
    assert quiet(records)
    assert any("Killed process" in (e.text or "") for file in heard for e in file.excerpts)
    assert site.pending() == []


def test_jobs_that_succeed_leave_nothing_with_the_daemon_or_on_the_nodes(site: Site) -> None:
    run = site.submit(Scenario("well", "none", environment={"STEPS": "6"}))
    alone = site.ask("sbatch", "--parsable", "--mem=100", "--wrap=true", "-o/dev/null")

    state = site.ended(run)
    site.wait(lambda: site.ask("squeue", "-h", "-j", alone) == "")
    site.wait(lambda: site.pending() == [] and not list(site.base.glob("queue-*/ready/*")), 90)
    time.sleep(2)

    assert state == "COMPLETED"
    assert site.records(run) == []
    assert [path.name for path in site.base.glob("unsent-*/*.json.gz")] == []
