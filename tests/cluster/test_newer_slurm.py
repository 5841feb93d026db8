"""The Epilog under what newer Slurms offer: several Epilog= lines, RunInJob, configless clusters.

Debian 12's Slurm (22.05) has none of them; Debian 13's (24.11) has all.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster import slurm_cluster
from tests.cluster.session import cluster_folder
from tests.cluster.site import Site

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def release() -> tuple[int, int]:
    """The release of the slurmd that is installed, (0, 0) where none is."""
    try:
        said = subprocess.run(["/usr/sbin/slurmd", "-V"], capture_output=True, text=True).stdout
    except OSError:
        return 0, 0
    found = re.search(r"(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else (0, 0)


@pytest.fixture(autouse=True)
def _new_enough() -> None:
    if (0, 0) < release() < (24, 5):
        pytest.skip("this Slurm is older than 24.05: it has neither several Epilogs nor RunInJob")


@contextmanager
def site_with(*lines: str, configless: bool = False) -> Iterator[Site]:
    with cluster_folder() as base:
        base.chmod(0o755)
        made = Site(base)
        made.lay_out()
        if configless:
            # slurmctld sends what lies beside slurm.conf
            shutil.copy(made.link, base / "etc/firstfault-epilog")
        at = {"firstfault": made.link, "after": made.after}
        slurm_cluster.start(
            base, more=tuple(line.format(**at) for line in lines), configless=configless
        )
        yield made


@contextmanager
def path_unit(site: Site) -> Iterator[None]:
    """What firstfault-collector.path does: starts the collector when the queue has something."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            if any(site.queue.glob("ready/*")):
                argv = ["/bin/sh", site.image / "usr/lib/firstfault/firstfault-epilog", "collect"]
                subprocess.run(argv, env={}, cwd="/", timeout=60)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def test_with_several_epilog_lines_all_run_and_each_end_is_recorded() -> None:
    with site_with("Epilog={after}", "Epilog={firstfault}") as site:
        job = site.run("exit 3")

        (record,) = site.awaited(job)
        assert record["environment"]["SLURM_JOB_EXIT_CODE"] == "768"
        assert job in (site.base / "after").read_text().split()
        assert site.state() == "idle none"


def test_within_the_job_the_epilog_notes_its_end_and_systemd_collects() -> None:
    with site_with("Epilog={firstfault}", "PrologFlags=Alloc,Contain,RunInJob") as site:
        site.configure(FIRSTFAULT_START="systemd")
        with path_unit(site):
            job = site.run("exit 3")
            (record,) = site.awaited(job)

        # What the node cannot know: Slurm gives no exit code to an Epilog within the job.
        assert record["environment"].get("SLURM_JOB_EXIT_CODE", "0") == "0"
        assert site.state() == "idle none"


def test_within_the_job_an_epilog_that_detaches_harms_nothing_and_loses_nothing() -> None:
    with site_with("Epilog={firstfault}", "PrologFlags=Alloc,Contain,RunInJob") as site:
        job = site.run("exit 3")
        state = site.state()
        with path_unit(site):
            # Whether or not the detached one was killed with the job, the next one has it.
            argv = ["/bin/sh", site.image / "usr/lib/firstfault/firstfault-epilog", "collect"]
            subprocess.run(argv, env={}, cwd="/", timeout=60)
            age_new(site)
            subprocess.run(argv, env={}, cwd="/", timeout=60)
            records = site.awaited(job)

        assert state == "idle none"
        assert len(records) == 1


def test_within_the_job_a_kill_for_memory_is_recorded_though_no_exit_code_tells_it() -> None:
    with site_with("Epilog={firstfault}", "PrologFlags=Alloc,Contain,RunInJob") as site:
        site.configure(FIRSTFAULT_START="systemd")
        with path_unit(site):
            job = site.run("python3 -c 'x = bytearray(1 << 30)'")
            (record,) = site.awaited(job)

        kernel = next(file for file in record["files"] if file["what"] == "kernel")
        lines = "".join(excerpt["text"] for excerpt in kernel["excerpts"])
        assert record["environment"].get("SLURM_JOB_EXIT_CODE", "0") == "0"
        assert re.search(rf"oom-kill:.*/job_{job}/", lines)


def test_a_configless_node_gets_the_script_from_the_controller() -> None:
    lines = ("Epilog=firstfault-epilog", "SlurmctldParameters=enable_configless")
    with site_with(*lines, configless=True) as site:
        cached = sorted(site.base.glob("spool/n1/conf-cache/**/*firstfault-epilog*"))
        job = site.run("exit 3")

        (record,) = site.awaited(job)
        assert cached
        assert record["environment"]["SLURM_JOB_EXIT_CODE"] == "768"
        assert site.state() == "idle none"


def age_new(site: Site) -> None:
    """Makes what an Epilog left half way old enough to be taken."""
    for path in Path(site.queue / "new").glob("[!.]*"):
        subprocess.run(["/usr/bin/touch", "-d", "2 minutes ago", path], check=True)
