"""What kept a run from starting, as Slurm, launchers and frameworks around torch say it."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from tests.diagnosis import made
from tests.diagnosis.made import sure_cause

NO_CONFIG = [
    "In 'config': Could not find 'model/lage'",
    "",
    "Available options in 'model':",
    "\tlarge",
    "",
    "Config search path:",
    "\tprovider=hydra, path=pkg://hydra.conf",
    "\tprovider=main, path=file:///home/eve/run/conf",
    "",
    "Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.",
]
NOWHERE = (
    "slurmstepd: error: couldn't chdir to `/home/eve/run': No such file or directory: "
    "going to /tmp instead"
)
NO_GROUP = (
    "Default process group has not been initialized, please make sure to call init_process_group."
)


def test_hydras_refusal_without_a_traceback_is_why_its_ranks_ended() -> None:
    verdict = made.judged(
        made.console(
            made.of_rank(0, None, NO_CONFIG),
            made.of_rank(1, None, NO_CONFIG),
            made.noticed(0, 700, 1),
            made.table((0, 0, 1, 700), (1, 1, 1, 701)),
        )
    )

    assert verdict.cause.id == "python.arguments"


def test_what_hydra_prints_behind_a_programs_own_exception_is_no_refusal() -> None:
    verdict = made.judged(
        made.console(
            made.of_rank(0, 0, ["Error executing job with overrides: ['lr=1']"]),
            made.of_rank(0, 0, [*made.raised("ValueError: bad shape"), "", NO_CONFIG[-1]]),
            made.noticed(0, 700, 1),
            made.table((0, 0, 1, 700)),
        )
    )

    assert (verdict.cause.id, verdict.exception.type) == ("python.exception", "ValueError")


@pytest.mark.parametrize(
    "said",
    [
        "srun: fatal: SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are mutually exclusive.",
        "srun: fatal: cpus-per-task set by two different environment variables "
        "SLURM_CPUS_PER_TASK=8 != SLURM_TRES_PER_TASK=cpu=4",
        "srun: unrecognized option '--gpus-each=4'",
    ],
)
def test_srun_that_refused_its_options_is_why_the_job_failed(said: str) -> None:
    verdict = made.judged(made.console([said]), made.accounting("FAILED"))

    assert verdict.cause.id == "slurm.launch"
    assert verdict.cause.title == "The job step could not be created"


def test_a_folder_that_could_not_be_entered_did_not_keep_a_run_from_its_work() -> None:
    verdict = made.judged(made.console([NOWHERE], made.WORK))

    assert verdict.cause.id in ("unknown", "none")


@pytest.mark.parametrize("kind", ["RuntimeError", "ValueError"])
def test_a_group_that_was_never_made_is_the_programs_own_error(kind: str) -> None:
    verdict = made.judged(
        made.console(
            made.of_rank(0, 0, made.raised(f"{kind}: {NO_GROUP}")),
            made.noticed(0, 700, 1),
            made.table((0, 0, 1, 700)),
        )
    )

    assert sure_cause(verdict) == "python.exception"


def test_mpiruns_daemons_that_did_not_start_are_told() -> None:
    verdict = made.judged(
        made.console(
            [
                "Host key verification failed.",
                "-" * 74,
                "ORTE was unable to reliably start one or more daemons.",
                "This usually is caused by:",
            ]
        )
    )

    assert (verdict.cause.id, verdict.cause.confidence) != ("slurm.launch", v.CONFIRMED)
    assert verdict.cause.id == "slurm.launch"


def test_a_batch_script_whose_cgroup_had_no_place_was_not_started() -> None:
    verdict = made.judged(
        made.console(
            [
                "slurmstepd: error: common_file_write_uints: write value '4411' to '/sys/fs/cgroup"
                "/cpuset/slurm/uid_1001/job_500/step_batch/cgroup.procs' failed: No space left on device",
                "slurmstepd: error: job_manager: exiting abnormally: Slurmd could not execve job",
            ]
        )
    )

    assert verdict.cause.id == "slurm.launch"


def test_a_node_that_failed_is_why_pmix_could_not_reach_it() -> None:
    verdict = made.judged(
        made.console(
            [
                "slurmstepd: error:  mpi/pmix_v5: pmixp_p2p_send: n3 [2]: pmixp_utils.c:469: send "
                "failed, rc=1001, exceeded the retry limit",
                "srun: error: Node failure on n4",
            ]
        )
    )

    assert (verdict.cause.id, verdict.initiator.host) == ("slurm.node-fail", "n4")


@pytest.mark.parametrize(
    "said",
    [
        "FATAL:   container creation failed: mount /data->/data error: while mounting /data: mount "
        "source /data doesn't exist",
        "slurmstepd: error: pyxis: container start failed with error code: 1",
        "[ERROR] No such file or directory: /scratch/images/train.sqsh",
    ],
)
def test_a_container_that_did_not_start_is_named_as_that(said: str) -> None:
    verdict = made.judged(made.console([said]))

    assert verdict.cause.id == "slurm.launch"
    assert verdict.cause.title == "The container could not be started"
