"""What only Slurm knows, on a real Slurm: who was lost, requeued, preempted or never told of."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firstfault.app.accounting import Either
from firstfault.slurm import library
from firstfault.slurm.library import Library
from firstfault.slurm.sacct import Sacct
from tests.cluster import truth as cluster_truth
from tests.cluster.truth import CRASHES, SILENT, SWEEP_AFTER_S, Truth

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def site() -> Iterator[Truth]:
    with cluster_truth.running() as made:
        # The first start begins the watch for ends of which nobody tells.
        with made.daemon():
            pass
        yield made


@pytest.fixture(scope="module")
def down(site: Truth) -> dict[str, str]:
    """Jobs that fail while the daemon is down; with a record, and without."""
    found = {
        "record": site.submit(CRASHES, "--nodes=2"),
        "silent": site.submit("exit 3", "--nodes=2", f"--comment={SILENT}"),
    }
    for job in found.values():
        assert site.over(job) == "FAILED"
    return found


@pytest.fixture(scope="module")
def on_gpus(daemon: Truth) -> dict[str, str]:
    """Jobs that failed, by how they asked for GPUs."""
    asked = {
        "none": ("--nodes=2",),
        "gres": ("--gres=gpu:2",),
        "typed": ("--gres=gpu:a100:1",),
        "per-node": ("--nodes=2", "--gpus-per-node=1"),
        "in-all": ("--nodes=2", "--gpus=3"),
        "per-task": ("--ntasks=2", "--gpus-per-task=1"),
        "array": ("--array=0-1", "--gres=gpu:1"),
        "leader-without": ("--nodes=1", ":", "--nodes=2", "--gpus-per-node=2"),
    }
    script = f"sleep 2\n{CRASHES}"
    found = {how: daemon.submit(script, *options) for how, options in asked.items()}
    for job in found.values():
        assert set(daemon.over(job).split()) == {"FAILED"}
    return found


@pytest.fixture(scope="module")
def lost(site: Truth) -> dict[str, str]:
    """Jobs on the node that is lost: one that is not requeued, and one that is."""
    again = '[ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] || exec sleep 300'
    found = {
        "lost": site.submit("sleep 300", "--no-requeue", "--nodelist=n4", f"--comment={SILENT}"),
        "requeued": site.submit(again, "--requeue", "--nodelist=n4"),
    }
    for job in found.values():
        site.running(job)
    site.lose("n4", found["lost"])
    assert site.over(found["lost"]) == "NODE_FAIL"
    site.bring_back("n4")
    return found


@pytest.fixture(scope="module")
def daemon(down: dict[str, str], site: Truth) -> Iterator[Truth]:
    with site.daemon():
        yield site


def test_a_job_that_failed_while_the_daemon_was_down_is_reported(
    down: dict[str, str], daemon: Truth
) -> None:
    verdict = daemon.verdict(down["record"])

    assert verdict["cause"]["id"] == "python.exception"
    assert verdict["exception"]["message"] == "expected 4 features"
    assert verdict["job"]["state"] == "FAILED"
    daemon.posted(down["record"], "python.exception")


def test_a_failure_of_which_no_epilog_told_is_reported_with_what_is_missing(
    down: dict[str, str], daemon: Truth
) -> None:
    verdict = daemon.verdict(down["silent"])
    gaps = {gap["what"] for gap in verdict["missing"]}

    assert (verdict["cause"]["id"], verdict["job"]["state"]) == ("unknown", "FAILED")
    assert verdict["job"]["nodes"] == 2
    assert sum(what.startswith("everything from n") for what in gaps) == 2
    daemon.posted(down["silent"], "unknown")


def test_a_lost_node_is_named_though_nobody_told(lost: dict[str, str], daemon: Truth) -> None:
    verdict = daemon.verdict(lost["lost"])

    assert (verdict["cause"]["id"], verdict["cause"]["domain"]) == ("slurm.node-fail", "system")
    assert verdict["initiator"]["host"] == "n4"
    assert verdict["job"]["state"] == "NODE_FAIL"
    daemon.posted(lost["lost"], "slurm.node-fail", "n4")


def test_a_requeued_job_is_reported_for_the_end_that_was_a_failure(
    lost: dict[str, str], daemon: Truth
) -> None:
    job = lost["requeued"]
    daemon.posted(job, "slurm.node-fail", "n4")
    assert daemon.over(job) == "COMPLETED"
    daemon.wait(lambda: len(daemon.said("event=slurm-facts", job, "COMPLETED")) > 0, "its success")

    assert all("slurm.node-fail" in text for text in daemon.messages(job))


def test_each_task_of_an_array_is_a_job_of_its_own(daemon: Truth) -> None:
    array = daemon.submit(CRASHES, "--array=0-49", "--nodes=1")
    assert set(daemon.over(array).split()) == {"FAILED"}
    asked = ("sacct", "-X", "-n", "-P", "-j", array, "-o", "JobID,JobIDRaw")
    daemon.wait(lambda: daemon.ask(*asked).count("\n") == 49, "the accounting of all tasks")
    raw = dict(line.split("|") for line in daemon.ask(*asked).splitlines())

    def causes() -> list[str]:
        return [daemon.verdict(job)["cause"]["id"] for job in raw.values()]

    # Where many tasks end at once a node may not know which output is whose: it names none then.
    daemon.wait(lambda: causes().count("python.exception") >= 45, "the tasks' verdicts", 120)

    def names() -> list[str]:
        told = [daemon.verdict(job)["job"] for job in raw.values()]
        return [f"{job['id']}_{job['array_task']}" for job in told]

    # Of an array and its tasks Slurm alone knows here.
    daemon.wait(lambda: names() == list(raw), "the tasks' names", 300)

    assert set(causes()) <= {"python.exception", "unknown"}


def test_a_heterogeneous_job_is_one_job_under_its_leader(daemon: Truth) -> None:
    script = f"srun --het-group=0,1 sh -c '[ $SLURM_PROCID = 0 ] || exec {_quoted(CRASHES)}'"
    job = daemon.submit(f"#SBATCH hetjob\n{script}", "--nodes=1", ":", "--nodes=1")
    assert set(daemon.over(job).split()) == {"FAILED"}
    verdict = daemon.verdict(job)

    assert verdict["cause"]["id"] == "python.exception"
    assert verdict["job"]["state"] == "FAILED"
    assert len(daemon.messages(str(int(job) + 1))) == 0


def test_the_gpu_hours_of_a_failure_are_those_that_slurm_accounts_for(
    on_gpus: dict[str, str], daemon: Truth
) -> None:
    expected = {"none": None, "gres": 2, "typed": 1, "per-node": 2, "in-all": 3, "per-task": 2}
    expected |= {"array": 1, "leader-without": 4}
    for job in on_gpus.values():
        daemon.verdict(job)

    def failures() -> dict[str, Any]:
        rows = json.loads(daemon.page("/api/v1/failures?limit=500"))["failures"]
        return {row["job"]: row for row in rows if row["node_s"]}

    daemon.wait(lambda: failures().keys() >= {*on_gpus.values()}, "the jobs' failures")
    of_job = failures()
    told = {how: of_job[job] for how, job in on_gpus.items()}

    assert {
        how: row["gpu_s"] and row["gpu_s"] * row["nodes"] / row["node_s"]
        for how, row in told.items()
    } == expected
    assert "GPU-hours" in daemon.page("/")
    assert "GPU-h" in daemon.page(f"/failures?name={told['gres']['name']}")


def test_a_node_tells_which_of_its_gpus_the_job_had(on_gpus: dict[str, str], daemon: Truth) -> None:
    job = on_gpus["gres"]
    place = f"/api/v1/failures/{daemon.verdict(job)['job']['cluster']}/{job}"
    node = json.loads(daemon.page(place))["evidence"][0]["node"]
    record = json.loads(daemon.page(f"{place}/1/evidence/{node}"))

    assert record["environment"]["SLURM_JOB_GPUS"] == "0,1"


def test_the_output_of_another_jobs_task_tells_nothing_of_a_job_without_one(
    on_gpus: dict[str, str], daemon: Truth
) -> None:
    assert list((daemon.base / "work").glob(f"slurm-{on_gpus['array']}_*.out"))
    job = daemon.submit("rm slurm-$SLURM_JOB_ID.out; exit 3")
    assert daemon.over(job) == "FAILED"

    assert daemon.verdict(job)["cause"]["id"] == "unknown"


def test_a_preempted_job_is_judged_and_not_posted(daemon: Truth) -> None:
    job = daemon.submit("sleep 300", "--nodelist=n3", "--exclusive", "--no-requeue")
    daemon.running(job)
    urgent = daemon.submit("true", "--partition=urgent", "--nodelist=n3", "--exclusive")
    assert daemon.over(job) == "PREEMPTED"
    assert daemon.over(urgent) == "COMPLETED"
    verdict = daemon.verdict(job)

    assert (verdict["cause"]["id"], verdict["job"]["state"]) == ("slurm.preempted", "PREEMPTED")
    assert daemon.messages(job) == []


def test_a_requeue_by_hand_is_no_failure(daemon: Truth) -> None:
    job = daemon.submit('[ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] || exec sleep 300', "--requeue")
    daemon.running(job)
    daemon.ask("scontrol", "requeue", job)
    assert daemon.over(job) == "COMPLETED"
    facts = ("event=slurm-facts", f"job={job}")
    daemon.wait(lambda: bool(daemon.said(*facts, "state=COMPLETED")), "its success")

    assert len(daemon.said(*facts, "state=REQUEUED")) > 0
    assert daemon.messages(job) == []


def test_a_cancellation_is_posted_unless_it_was_the_owners(daemon: Truth) -> None:
    own, others = daemon.submit("sleep 300"), daemon.submit("sleep 300")
    for job in (own, others):
        daemon.wait((daemon.base / f"work/slurm-{job}.out").exists, f"the script of {job}")
    daemon.cancel(own)
    daemon.ask("scancel", others)

    daemon.posted(others, "slurm.cancelled")
    assert daemon.verdict(own)["job"]["state"] == "CANCELLED"
    assert daemon.messages(own) == []


@pytest.mark.parametrize(
    "away_s", [8, pytest.param(600, marks=pytest.mark.soak)], ids=["short", "ten-minutes"]
)
def test_nothing_is_lost_while_slurmdbd_is_away(daemon: Truth, away_s: float) -> None:
    failures = len(daemon.said("event=slurm-not-answering"))
    daemon.stop_accounting()
    try:
        told = daemon.submit(CRASHES)
        silent = daemon.submit("exit 3", f"--comment={SILENT}")
        for job in (told, silent):
            assert daemon.over(job) == "FAILED"
        # A named failure does not wait for Slurm.
        daemon.posted(told, "python.exception")
        time.sleep(away_s)
        before = daemon.stored(told)
        assert before is not None
        assert before["job"]["state"] is None
    finally:
        daemon.start_accounting()

    assert len(daemon.said("event=slurm-not-answering")) > failures
    assert daemon.verdict(told, seconds=700)["job"]["state"] == "FAILED"
    assert daemon.verdict(silent, seconds=SWEEP_AFTER_S + 60)["cause"]["id"] == "unknown"
    assert len([text for text in daemon.messages(told) if "python.exception" in text]) == 1


def test_sacct_and_pyslurm_agree_on_this_cluster(
    daemon: Truth, down: dict[str, str], on_gpus: dict[str, str]
) -> None:
    if not library.is_installed():
        pytest.skip("pyslurm is not installed (pip install firstfault[pyslurm], on Slurm 25.11)")
    sacct = Sacct(daemon.base / "etc/sacct", 30)
    os.environ["SLURM_CONF"] = str(daemon.base / "etc/slurm.conf")
    bound = Library(30)
    try:
        ids = [*down.values(), *(on_gpus[how] for how in ("none", "gres", "typed", "in-all"))]
        ours, theirs = sacct.facts(ids), bound.facts(ids)
    finally:
        del os.environ["SLURM_CONF"]
        bound.close()

    for job in ids:
        assert msgspec.structs.replace(ours[job][-1], steps=()) == msgspec.structs.replace(
            theirs[job][-1], steps=()
        )
    assert Either(bound, sacct).facts(ids).keys() == ours.keys()


def _quoted(command: str) -> str:
    return command.replace("'", "'\\''")


def test_no_record_is_left_over(daemon: Truth) -> None:
    left = [path for path in Path(daemon.base / "records").glob("*.json*") if path.is_file()]

    assert left == []
