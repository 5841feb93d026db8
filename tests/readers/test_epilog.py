"""The environment of a node's Epilog."""

from __future__ import annotations

import pytest

from firstfault.readers.epilog import epilog_event, looks_like_epilog
from tests.readers.logs import document

TEXT = (
    "SLURM_SCRIPT_CONTEXT=epilog_slurmd\nSLURM_JOB_ID=4242\nSLURMD_NODENAME=n3\n"
    "SLURM_CLUSTER_NAME=alpha\nSLURM_JOB_USER=alice\nSLURM_JOB_UID=1001\n"
    "SLURM_JOB_NODELIST=n[1-4]\nSLURM_JOB_EXIT_CODE=256\nSLURM_JOB_DERIVED_EC=1792\n"
)


def test_it_tells_the_job_and_how_it_ended() -> None:
    end = epilog_event(document(TEXT))

    assert end is not None
    assert (end.job, end.host, end.cluster, end.user, end.uid) == (
        "4242",
        "n3",
        "alpha",
        "alice",
        1001,
    )
    assert (end.nodes, end.exit_status, end.derived_status) == ("n[1-4]", 256, 1792)
    assert end.place.text == "SLURM_JOB_EXIT_CODE=256"
    assert looks_like_epilog(TEXT)


def test_older_slurm_names_the_nodes_otherwise_and_may_give_no_status() -> None:
    end = epilog_event(document("SLURM_JOB_ID=7\nSLURM_NODELIST=n1\n"))

    assert end is not None
    assert (end.nodes, end.exit_status, end.host) == ("n1", None, None)
    assert end.place.text == "SLURM_JOB_ID=7"


@pytest.mark.parametrize("value", ["", "x", "-1", "²", "9" * 5_000])
def test_a_number_that_is_none_is_left_out(value: str) -> None:
    end = epilog_event(document(f"SLURM_JOB_ID=7\nSLURM_JOB_EXIT_CODE={value}\n"))

    assert end is not None
    assert end.exit_status is None


def test_a_file_without_a_job_tells_nothing() -> None:
    assert epilog_event(document("PATH=/usr/bin\nhello\n")) is None
    assert not looks_like_epilog("PATH=/usr/bin\n")


def test_a_value_may_hold_anything() -> None:
    end = epilog_event(document("SLURM_JOB_ID=7\nSLURM_JOB_USER=a=b<script>\r\n"))

    assert end is not None
    assert end.user == "a=b<script>"
