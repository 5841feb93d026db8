"""The cause in the job's AdminComment, written into the accounting of a real Slurm."""

from __future__ import annotations

import datetime as dt
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from firstfault.deliver.admin_comment import AdminComment
from firstfault.deliver.outcome import Failed, Needless, Result, Sent
from firstfault.model import verdict as v
from firstfault.model.jobs import Delivery, StoredVerdict
from firstfault.slurm import command
from tests.cluster import slurm_cluster
from tests.cluster.session import cluster_folder

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

CLUSTER = "firstfaulttest"
NOBODY = ("/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
HOSTILE = "n3|x'; --\n\"\x1b[2J" + "y" * 500


@pytest.fixture(scope="module")
def base() -> Iterator[Path]:
    with cluster_folder() as folder:
        slurm_cluster.start(folder)
        yield folder


def comment(base: Path, job: str) -> str:
    return slurm_cluster.ask(
        base, "sacct", "-n", "-X", "-P", "-j", job, "-o", "AdminComment"
    ).rstrip("\n")


def channel(base: Path, *prefix: str) -> AdminComment:
    environment = {**slurm_cluster.environment(base), "TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}

    def run(argv: Sequence[str]) -> command.Output:
        return command.run([*prefix, *argv], environment, 20, 1 << 20)

    paths = [shutil.which(name, path=slurm_cluster.SEARCH) for name in ("sacctmgr", "sacct")]
    return AdminComment(Path(str(paths[0])), Path(str(paths[1])), run)


def delivery(job: str, cause: str = "memory.cgroup-oom", host: str = "n3") -> Delivery:
    verdict = v.Verdict(
        job=v.Job(id=job),
        cause=v.Cause(cause, "x", "user", v.CONFIRMED),
        initiator=v.Initiator(rank=5, host=host, confidence=v.CONFIRMED),
    )
    stored = StoredVerdict(CLUSTER, job, 1, 1, dt.datetime.now(dt.UTC), verdict)
    return Delivery(1, "d1", "admin-comment", 1, stored)


def failed_job(base: Path, *options: str) -> str:
    """The number of a job that has failed, for the accounting too."""
    said = slurm_cluster.ask(
        base, "sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", "exit 1"
    )
    job = said.strip().partition(";")[0]
    _await(base, job, "FAILED")
    return job


def _await(base: Path, job: str, *states: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        said = slurm_cluster.ask(base, "sacct", "-n", "-X", "-P", "-j", job, "-o", "State")
        if said.strip() in states:
            return
        time.sleep(0.3)
    raise AssertionError(f"job {job} did not become {states}")


def wrote(base: Path, one: Delivery) -> Result:
    return channel(base).send(one)


def test_the_cause_stands_in_the_accounting_and_a_correction_replaces_it(base: Path) -> None:
    job = failed_job(base)

    first = wrote(base, delivery(job, "process.killed")), comment(base, job)
    again = wrote(base, delivery(job)), comment(base, job)

    assert first == (Sent(), "firstfault: process.killed (confirmed) rank 5 on n3")
    assert again == (Sent(), "firstfault: memory.cgroup-oom (confirmed) rank 5 on n3")
    assert wrote(base, delivery(job)) == Sent()


def test_a_name_in_capitals_is_written_once(base: Path) -> None:
    job = failed_job(base)

    assert wrote(base, delivery(job, host="GPU-01")) == Sent()
    assert wrote(base, delivery(job, host="GPU-01")) == Sent()

    said = comment(base, job)
    assert said.lower() == "firstfault: memory.cgroup-oom (confirmed) rank 5 on gpu-01"


def test_another_comment_stays(base: Path) -> None:
    job = failed_job(base)
    change = ("modify", "job", "where", f"jobid={job}", "set", "admincomment=js1:another")
    slurm_cluster.ask(base, "sacctmgr", "-i", *change)

    result = wrote(base, delivery(job))

    assert isinstance(result, Needless)
    assert comment(base, job) == "js1:another"


def test_nothing_in_a_name_breaks_the_accountings_output(base: Path) -> None:
    job = failed_job(base)

    assert wrote(base, delivery(job, host=HOSTILE)) == Sent()

    said = comment(base, job)
    assert said.startswith("firstfault: memory.cgroup-oom (confirmed) rank 5 on n3_x_ --_")
    assert len(said) == 200
    assert "|" not in said
    assert said.isprintable()


def test_who_is_no_administrator_is_told_how_to_become_one(base: Path) -> None:
    job = failed_job(base)

    result = channel(base, *NOBODY).send(delivery(job))

    assert isinstance(result, Failed)
    assert result.retry
    assert "adminlevel=Administrator" in result.reason
    assert comment(base, job) == ""


def test_a_job_that_runs_again_keeps_its_comment_to_itself(base: Path) -> None:
    job = failed_job(base, "--requeue")
    one = delivery(job)
    earlier = msgspec.structs.replace(
        one.current, created_at=one.current.created_at - dt.timedelta(seconds=30)
    )
    slurm_cluster.ask(base, "scontrol", "requeuehold", job)
    _await(base, job, "PENDING", "REQUEUED")

    result = wrote(base, msgspec.structs.replace(one, current=earlier))

    assert isinstance(result, Needless)
    assert comment(base, job) == ""


def test_a_job_that_has_not_ended_for_the_accounting_is_tried_again(base: Path) -> None:
    said = slurm_cluster.ask(base, "sbatch", "--parsable", "-o", "/dev/null", "--wrap", "sleep 600")
    job = said.strip().partition(";")[0]
    _await(base, job, "RUNNING")

    result = wrote(base, delivery(job))

    slurm_cluster.ask(base, "scancel", job)
    assert isinstance(result, Failed)
    assert result.retry
    assert "still RUNNING" in result.reason


def test_a_job_that_nobody_knows_is_tried_again(base: Path) -> None:
    result = wrote(base, delivery("4294900000"))

    assert isinstance(result, Failed)
    assert result.retry
