"""A cluster with firstfault installed as docs/collector.md says, and jobs that need no torch."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cluster import slurm_cluster
from tests.cluster.session import TOP


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


DONE = ("FAILED", "COMPLETED", "CANCELLED", "OUT_OF_MEMORY")
