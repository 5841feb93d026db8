"""The Epilog in a real Slurm: a folder of scripts, requeues, jobs without a step, bad nodes."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import slurm_cluster
from tests.cluster.session import TOP, cluster_folder

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


class Site:
    """A cluster whose slurm.conf names a folder of Epilogs, with firstfault installed."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.folder = base / "epilog.d"
        self.conf = base / "etc/epilog.conf"
        self.queue = base / "queue"
        self.spool = base / "records"
        self.image = base / "image"

    def lay_out(self) -> None:
        """Installs, as docs/collector.md says, below a folder of the cluster's."""
        for place in (self.folder, self.conf.parent, self.spool):
            place.mkdir()
        sources = self.base / "sources"
        shutil.copytree(TOP / "epilog", sources / "epilog")
        shutil.copytree(TOP / "etc", sources / "etc")
        script = sources / "epilog/firstfault-epilog"
        line = "conf=${FIRSTFAULT_CONF:-/etc/firstfault/epilog.conf}"
        text = script.read_text()
        assert line in text
        script.write_text(text.replace(line, f"conf={self.conf}"))
        self.install()
        self.configure()
        # It runs after zz-firstfault, as slurmd goes from z to a.
        self.after = self.folder / "aa-after"
        self.after.write_text(f"#!/bin/sh\necho $SLURM_JOB_ID >>{self.base}/after\n")
        self.after.chmod(0o755)
        self.link = self.folder / "zz-firstfault"
        self.link.symlink_to(self.image / "usr/lib/firstfault/firstfault-epilog")

    def install(self, *arguments: str) -> None:
        installer = self.base / "sources/epilog/install-node"
        subprocess.run(
            [installer, "--root", self.image, *arguments], check=True, stdout=subprocess.DEVNULL
        )

    def configure(self, **changes: str) -> None:
        values = {
            "FIRSTFAULT_QUEUE": str(self.queue),
            "FIRSTFAULT_START": "detach",
            "FIRSTFAULT_PYTHON": "/usr/bin/python3",
            "FIRSTFAULT_PYZ": f"{self.image}/usr/lib/firstfault/firstfault-epilog.pyz",
            "FIRSTFAULT_SPOOL": str(self.spool),
            "FIRSTFAULT_ALLOW_ROOT_JOBS": "1",
        } | changes
        self.conf.write_text("".join(f"{key}={value}\n" for key, value in values.items()))

    def ask(self, *argv: str) -> str:
        return slurm_cluster.ask(self.base, *argv).strip()

    def submit(self, script: str, *options: str) -> str:
        """A batch job on n1; its number."""
        common = ["--parsable", "--nodelist=n1", "--mem=100", f"--chdir={self.base}"]
        return self.ask("sbatch", *common, *options, f"--wrap={script}")

    def wait(self, ready: Callable[[], bool], seconds: float = 60) -> None:
        stop_at = time.monotonic() + seconds
        while not ready():
            assert time.monotonic() < stop_at, self.ask("scontrol", "show", "node", "n1")
            time.sleep(0.2)

    def run(self, script: str, *options: str) -> str:
        """Runs a job to the end of its Epilogs; its number."""
        job = self.submit(script, *options)
        self.wait(lambda: self.ask("squeue", "-h", "-t", "all", "-j", job, "-o", "%T") in DONE)
        return job

    def state(self) -> str:
        """The node's state and the reason of it."""
        return self.ask("sinfo", "-h", "-n", "n1", "-o", "%T %E")

    def records(self, job: str) -> list[dict[str, Any]]:
        paths = sorted(self.spool.glob(f"*-{job}-n1-*.json.gz"))
        return [json.loads(gzip.decompress(path.read_bytes())) for path in paths]

    def awaited(self, job: str, count: int = 1) -> list[dict[str, Any]]:
        self.wait(lambda: len(self.records(job)) >= count)
        return self.records(job)


DONE = ("FAILED", "COMPLETED", "CANCELLED")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with cluster_folder() as base:
        base.chmod(0o755)
        made = Site(base)
        made.lay_out()
        slurm_cluster.start(base, epilog=made.folder / "*")
        yield made


@pytest.fixture(autouse=True)
def healthy(site: Site) -> Iterator[None]:
    """Each test finds the node idle and leaves it as the installation made it."""
    yield
    site.configure()
    if "idle" not in site.state():
        site.ask("scontrol", "update", "nodename=n1", "state=resume")
        site.wait(lambda: "idle" in site.state())


def test_a_job_without_a_step_gives_a_record_and_the_next_script_runs(site: Site) -> None:
    job = site.run("exit 3")

    (record,) = site.awaited(job)
    assert record["environment"]["SLURM_JOB_EXIT_CODE"] == "768"
    assert record["node"] == "n1"
    assert job in (site.base / "after").read_text().split()
    assert site.state() == "idle none"


def test_each_end_of_a_requeued_job_is_a_record_of_its_own(site: Site) -> None:
    started = site.base / "started"
    job = site.submit(f"echo x >>{started}; sleep 60", "--requeue")
    site.wait(lambda: started.exists() and started.read_text() == "x\n")

    site.ask("scontrol", "requeue", job)
    site.awaited(job)
    # Slurm would hold it back for two minutes.
    site.wait(lambda: site.ask("squeue", "-h", "-j", job, "-o", "%T") == "PENDING")
    site.ask("scontrol", "update", f"jobid={job}", "starttime=now")
    site.wait(lambda: started.read_text() == "x\nx\n")
    site.ask("scancel", job)

    first, second = site.awaited(job, 2)
    assert first["id"] != second["id"]
    site.wait(lambda: site.state() == "idle none")


@pytest.mark.parametrize(
    "fault", ["queue", "python", "archive", "spool", "configuration", "switch", "no setsid"]
)
def test_nothing_that_is_wrong_with_the_node_drains_it(site: Site, fault: str) -> None:
    switch = site.conf.parent / "off"
    if fault == "queue":
        site.configure(FIRSTFAULT_QUEUE="/proc/no/such/queue")
    elif fault == "python":
        site.configure(FIRSTFAULT_PYTHON="/nonexistent")
    elif fault == "archive":
        site.configure(FIRSTFAULT_PYZ="/nonexistent", FIRSTFAULT_QUEUE=f"{site.base}/other")
    elif fault == "spool":
        site.configure(FIRSTFAULT_SPOOL="/nonexistent")
    elif fault == "configuration":
        site.conf.write_bytes(bytes(range(256)) * 100 + b"\nFIRSTFAULT_QUEUE=/proc/none\n")
    elif fault == "switch":
        switch.touch()
    else:
        site.configure(FIRSTFAULT_START="systemd")
    try:
        job = site.run("exit 1")
    finally:
        switch.unlink(missing_ok=True)

    assert site.state() == "idle none"
    assert job in (site.base / "after").read_text().split()


def test_twenty_jobs_that_end_together_all_give_their_records(site: Site) -> None:
    jobs = [site.submit("exit 1", "--cpus-per-task=1") for _ in range(20)]

    for job in jobs:
        assert len(site.awaited(job)) == 1
    site.wait(lambda: site.state() == "idle none")


def test_after_the_uninstallation_the_node_goes_on_and_without_its_file_it_is_drained(
    site: Site,
) -> None:
    site.install("--uninstall")
    try:
        site.run("exit 1")
        uninstalled = site.state()
        # The control: what the script that does nothing is for.
        site.install("--uninstall", "--purge")
        site.run("exit 1")
        site.wait(lambda: "drain" in site.state())
        purged = site.state()
    finally:
        site.install()
        site.ask("scontrol", "update", "nodename=n1", "state=resume")

    assert uninstalled == "idle none"
    assert "Epilog error" in purged
