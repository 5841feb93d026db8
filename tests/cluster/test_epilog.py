"""The Epilog in a real Slurm: a folder of scripts, requeues, jobs without a step, bad nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster import slurm_cluster
from tests.cluster.session import cluster_folder
from tests.cluster.site import Site

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


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

    # Slurm would hold it back for two minutes, and does so once it has cleaned up after it.
    def is_begun() -> bool:
        if site.ask("squeue", "-h", "-j", job, "-o", "%T") == "PENDING":
            site.ask("scontrol", "update", f"jobid={job}", "starttime=now")
        return started.read_text() == "x\nx\n"

    site.wait(is_begun)
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
