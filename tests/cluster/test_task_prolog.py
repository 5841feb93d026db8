"""The TaskProlog in a real Slurm with a real torchrun: jobs that ask for nothing."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import jobs, slurm_cluster
from tests.cluster.session import TOP, cluster_folder
from tests.cluster.site_parts import build_collector

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
NODES = ("n1", "n2")
OURS = ("PET_LOG_DIR", "PET_TEE", "PYTHONFAULTHANDLER")
ENDED = {"FAILED", "COMPLETED", "CANCELLED", "OUT_OF_MEMORY"}
# What a user writes who knows nothing of logs; --local-addr: the machine's name need not resolve.
TORCHRUN = """#!/bin/bash
srun {torch}/bin/torchrun --nnodes=2 --nproc-per-node=2 --rdzv-backend=c10d \\
  --rdzv-endpoint=127.0.0.1:{port} --local-addr=127.0.0.1 train.py
"""


class Site:
    """A cluster with the Epilog and the TaskProlog of this checkout."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.conf = base / "etc/epilog.conf"
        self.spool = base / "records"
        self.ranks = base / "ranks"
        self.prolog = base / "etc/firstfault-task-prolog"

    def lay_out(self) -> None:
        for place in (self.conf.parent, self.spool, self.ranks, self.base / "work"):
            place.mkdir()
        self.ranks.chmod(0o1777)
        (self.base / "work").chmod(0o1777)
        build_collector(self.base)
        for name in ("firstfault-epilog", "firstfault-task-prolog"):
            text = (TOP / "epilog" / name).read_text()
            default = "${FIRSTFAULT_CONF:-/etc/firstfault/epilog.conf}"
            assert default in text
            script = self.base / "etc" / name
            script.write_text(text.replace(default, str(self.conf)))
            script.chmod(0o755)
        self.configure()

    def configure(self, **changes: str) -> None:
        values = {
            "FIRSTFAULT_QUEUE": f"{self.base}/queue",
            "FIRSTFAULT_START": "detach",
            "FIRSTFAULT_PYTHON": "/usr/bin/python3",
            "FIRSTFAULT_PYZ": f"{self.base}/etc/collector.pyz",
            "FIRSTFAULT_RANK_LOG_DIR": str(self.ranks),
            "FIRSTFAULT_RANK_LOG_TEE": "1",
            # The disk of the machine under test may be of any kind.
            "FIRSTFAULT_RANK_LOG_ANY_FS": "1",
            "FIRSTFAULT_RANK_LOG_FREE_MB": "1",
            "FIRSTFAULT_SPOOL": str(self.spool),
            "FIRSTFAULT_RANK_LOGS": "",
        } | changes
        self.conf.write_text("".join(f"{key}={value}\n" for key, value in values.items()))

    def run(self, script: str, nodes: int = 2, **variables: str) -> tuple[str, Path, str]:
        """Runs a batch job of an ordinary user; its number, its folder and its state."""
        user = jobs.account()
        folder = Path(tempfile.mkdtemp(dir=self.base / "work"))
        (folder / "truth").mkdir()
        shutil.copy(jobs.HERE / "train.py", folder)
        for path in (folder, folder / "truth"):
            os.chown(path, user.pw_uid, user.pw_gid)
        argv = ["/usr/bin/sbatch", "--parsable", "--mem=1500", "--time=3", f"--chdir={folder}"]
        argv += [f"--nodelist={','.join(NODES[:nodes])}", "--ntasks-per-node=1", "--no-requeue"]
        environment = slurm_cluster.environment(self.base) | variables
        environment |= {"TRUTH": str(folder / "truth"), "GLOO_SOCKET_IFNAME": "lo"}
        environment |= {"OMP_NUM_THREADS": "1", "PATH": f"{jobs.TORCH}/bin:/usr/bin:/bin"}
        who: dict[str, Any] = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        done = subprocess.run(
            argv, env=environment, input=script, capture_output=True, text=True, timeout=30, **who
        )
        assert done.returncode == 0, done.stderr
        job = done.stdout.strip()
        self.wait(lambda: self.state(job) in ENDED, 150)
        return job, folder, self.state(job)

    def state(self, job: str) -> str:
        asked = ("squeue", "-h", "-t", "all", "-j", job, "-o", "%T")
        return slurm_cluster.ask(self.base, *asked).strip()

    def wait(self, ready: Callable[[], bool], seconds: float = 60) -> None:
        stop_at = time.monotonic() + seconds
        while not ready():
            assert time.monotonic() < stop_at, slurm_cluster.ask(self.base, "squeue", "-t", "all")
            time.sleep(0.2)

    def records(self, job: str, nodes: int = 2) -> list[Path]:
        def found() -> list[Path]:
            return sorted(self.spool.glob(f"*-{job}-n*.json.gz"))

        self.wait(lambda: len(found()) >= nodes)
        return found()


def files_of(record: Path, what: str) -> list[str]:
    found = json.loads(gzip.decompress(record.read_bytes()))["files"]
    return [file["name"] for file in found if file["what"] == what]


def explained(*paths: Path) -> dict[str, Any]:
    """What `firstfault explain` says of the files."""
    argv = [str(Path(sys.executable).parent / "firstfault"), "explain", "--format", "json"]
    done = subprocess.run([*argv, *map(str, paths)], capture_output=True, text=True, timeout=120)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    if jobs.missing() is not None or slurm_cluster.missing() is not None:
        pytest.skip(jobs.missing() or slurm_cluster.missing() or "")
    with cluster_folder() as base:
        base.chmod(0o755)
        made = Site(base)
        made.lay_out()
        prolog = f"TaskProlog={made.prolog}"
        slurm_cluster.start(base, epilog=base / "etc/firstfault-epilog", more=(prolog,))
        yield made


@pytest.fixture(autouse=True)
def restored(site: Site) -> Iterator[None]:
    yield
    site.configure()
    site.ranks.chmod(0o1777)


def torchrun() -> str:
    return TORCHRUN.format(torch=jobs.TORCH, port=slurm_cluster.free_ports(1)[0])


@pytest.mark.parametrize("output", ["slurm-%j.out", "/dev/null"])
def test_a_job_that_asks_for_nothing_is_told_who_failed_where_its_console_cannot_tell(
    site: Site, output: str
) -> None:
    script = torchrun().replace("\n", f"\n#SBATCH --output={output}\n", 1)
    asked = {"FAULT": "exception", "FAULT_RANK": "3", "RECORD": "0"}
    bare, _, _ = site.run(script, FIRSTFAULT_RANK_LOGS="off", **asked)
    job, folder, state = site.run(script, **asked)

    records = site.records(job)
    truth = json.loads((folder / "truth/rank-3.json").read_text())
    whole = explained(*records)
    without = explained(*site.records(bare))
    assert state == "FAILED"
    for node, record in zip(NODES, records, strict=True):
        logs = files_of(record, "rank-log")
        assert len(logs) == 2
        assert all(name.startswith(f"{site.ranks}/{job}.{node}/0.0/") for name in logs)
    assert whole["cause"]["id"] == "python.exception"
    assert whole["initiator"]["host"] == truth["host"]
    if output == "/dev/null":
        assert without["cause"]["id"] == "unknown"
        # Which of the two local ranks is certain; its global number stands nowhere.
        assert whole["initiator"]["local_rank"] == truth["local_rank"]
    else:
        assert without["initiator"]["host"] is None
        assert whole["initiator"]["rank"] == 3
        assert whole["cause"]["confidence"] == "confirmed"


def test_folders_are_removed_when_the_record_was_taken(site: Site) -> None:
    job, _, _ = site.run("#!/bin/bash\nsrun true\n")
    for record in site.records(job):
        record.unlink()

    other, _, _ = site.run("#!/bin/bash\ntrue\n", nodes=1)
    site.records(other, nodes=1)

    site.wait(lambda: not list(site.ranks.glob(f"{job}.*")))
    assert list(site.ranks.glob(f"{other}.*")) != []


# Prints what the batch script and a step on another node find.
LEVELS = r"""#!/bin/bash
say() { env | grep -E '^(PET_|PYTHONFAULT)' | sort | sed "s/^/$1 /"; }
export -f say
say batch
srun -N1 -n1 -w n2 bash -c 'say step'
"""


def test_a_step_gets_its_own_folder_and_not_the_batch_scripts(site: Site) -> None:
    job, folder, state = site.run(LEVELS)

    said = (folder / f"slurm-{job}.out").read_text().splitlines()
    assert state == "COMPLETED", said
    assert f"batch PET_LOG_DIR={site.ranks}/{job}.n1/0.batch" in said
    assert f"step PET_LOG_DIR={site.ranks}/{job}.n2/0.0" in said
    assert "step PET_TEE=2" in said
    assert "step PYTHONFAULTHANDLER=1" in said


def test_a_users_own_log_folder_is_kept(site: Site) -> None:
    script = torchrun().replace("srun ", "export PET_LOG_DIR=$PWD/mine PET_TEE=3\nsrun ", 1)

    job, folder, state = site.run(script, FAULT="exception", FAULT_RANK="1")

    assert state == "FAILED"
    assert len(list((folder / "mine").glob("*/attempt_0/*/stdout.log"))) == 4
    assert list(site.ranks.glob(f"{job}.*/0.0/*_*")) == []


@pytest.mark.parametrize(
    "trouble", ["nothing configured", "unwritable", "no folder", "full", "in memory", "no room"]
)
def test_where_there_can_be_no_folder_nothing_happens_to_the_job(site: Site, trouble: str) -> None:
    mounted = False
    changes = {}
    if trouble == "nothing configured":
        changes["FIRSTFAULT_RANK_LOG_DIR"] = ""
    elif trouble == "unwritable":
        site.ranks.chmod(0o1755)
    elif trouble == "no folder":
        changes["FIRSTFAULT_RANK_LOG_DIR"] = f"{site.base}/nowhere"
    elif trouble == "no room":
        changes["FIRSTFAULT_RANK_LOG_FREE_MB"] = "9999999999"
    else:
        changes["FIRSTFAULT_RANK_LOG_ANY_FS"] = "1" if trouble == "full" else "0"
        changes["FIRSTFAULT_RANK_LOG_FREE_MB"] = "0"
        argv = ["/bin/mount", "-t", "tmpfs", "-o", "size=64k,mode=1777", "none", site.ranks]
        if subprocess.run(argv, check=False).returncode != 0:
            pytest.skip("mounting is not allowed here")
        mounted = True
        if trouble == "full":
            (site.ranks / "filler").write_bytes(b"x" * (64 << 10))
    site.configure(**changes)
    try:
        job, folder, state = site.run(LEVELS)
    finally:
        if mounted:
            subprocess.run(["/bin/umount", site.ranks], check=True)

    said = (folder / f"slurm-{job}.out").read_text()
    assert (state, said) == ("COMPLETED", "")
