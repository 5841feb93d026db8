"""What a program's own words add to a card's fault."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from tests.diagnosis import made
from tests.faults.test_cards import ASSERTED, ILLEGAL, raised

LINE = "/src/aten/src/ATen/native/cuda/Loss.cu:242: nll_loss_forward: block: [0,0,0], thread: [7,0,0] Assertion `t >= 0 && t < n_classes` failed."
OLD_LINE = LINE.replace("`", "")
FULL = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
    "capacity of 79.11 GiB of which 1.41 GiB is free. "
)
OWN = "Including non-PyTorch memory, this process has 15.10 GiB memory in use. Of the allocated"


def console(*before: str, error: str = ASSERTED) -> list[str]:
    return [
        *made.of_task(0, made.of_rank(0, 0, [*before, *made.raised(error)])),
        *made.of_task(0, made.noticed(0, 700, 1), made.table((0, 0, 1, 700), errors={0: error})),
        *made.task_ended("c1", 0),
    ]


def explained(*before: str, error: str = ASSERTED) -> v.Verdict:
    return made.judged(made.console(console(*before, error=error)), made.accounting("FAILED"))


@pytest.mark.parametrize("line", [LINE, OLD_LINE])
def test_an_assertion_with_the_line_that_the_card_printed_is_sure(line: str) -> None:
    verdict = explained(line)

    assert (verdict.cause.id, verdict.cause.confidence) == ("gpu.device-assert", v.CONFIRMED)
    assert verdict.initiator.rank == 0
    assert verdict.cause.title.endswith("failed an assertion on its GPU: t >= 0 && t < n_classes")
    assert "Loss.cu:242" in verdict.evidence[0].text


def test_an_assertion_without_that_line_is_sure_by_the_processs_own_word() -> None:
    verdict = explained()

    assert (verdict.cause.id, verdict.cause.confidence) == ("gpu.device-assert", v.CONFIRMED)


@pytest.mark.parametrize("error", [ILLEGAL, "ValueError: shapes differ"])
def test_an_assertions_line_makes_no_other_error_one(error: str) -> None:
    verdict = explained(LINE, error=error)

    assert verdict.cause.id != "gpu.device-assert"


def test_assertions_that_only_stand_in_a_log_are_possible() -> None:
    verdict = made.judged(made.console([LINE, LINE]))

    assert (verdict.cause.id, verdict.cause.confidence) == ("gpu.device-assert", v.POSSIBLE)


def test_an_assertion_that_cpp_ended_the_process_for_is_sure() -> None:
    ended = ["terminate called after throwing an instance of 'c10::Error'"]
    told = "  what():  CUDA error: device-side assert triggered"
    verdict = made.judged(made.console([OLD_LINE, *ended, told]))

    assert (verdict.cause.id, verdict.cause.confidence) == ("gpu.device-assert", v.CONFIRMED)


def test_memory_that_an_uncaught_exception_says_was_refused_is_sure() -> None:
    verdict = made.judged(raised(FULL + OWN), made.accounting("FAILED"))

    assert (verdict.cause.id, verdict.cause.confidence) == ("memory.gpu-oom", v.CONFIRMED)
    assert verdict.cause.title.endswith("ran out of GPU memory when it asked for 2.00 GiB")


def test_another_process_that_held_the_memory_is_named() -> None:
    other = "Process 8821 has 61.52 GiB memory in use. "
    verdict = made.judged(raised(FULL + other + OWN), made.accounting("FAILED"))

    assert "process 8821 held 61.52 GiB of that GPU, it had 15.10 GiB" in verdict.cause.title


def test_another_rank_that_held_the_memory_is_named_as_such() -> None:
    error = f"{FULL}Process 701 has 61.52 GiB memory in use. {OWN}"
    verdict = made.judged(
        made.console(
            made.of_task(0, made.of_rank(0, 0, made.raised(error))),
            made.of_task(0, made.of_rank(1, 1, made.raised(made.PEER)), made.noticed(0, 700, 1)),
            made.of_task(
                0,
                made.table((0, 0, 1, 700), (1, 1, 1, 701), errors={0: "<N/A>", 1: "<N/A>"}),
            ),
            made.task_ended("c1", 0),
        ),
        made.accounting("FAILED"),
    )

    assert "rank 1 held 61.52 GiB" in verdict.cause.title


@pytest.mark.parametrize(
    "words",
    [
        # In a container a process does not know its own number.
        "Process 8821 has 77.52 GiB memory in use. Of the allocated memory",
        # What CUDA takes for each process.
        f"Process 8821 has 512.00 MiB memory in use. {OWN}",
    ],
)
def test_what_need_not_be_another_process_or_is_little_is_not_named(words: str) -> None:
    verdict = made.judged(raised(FULL + words), made.accounting("FAILED"))

    assert "8821" not in verdict.cause.title


NCCL = (
    "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3699, unhandled cuda "
    "error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.3"
)


def refused(*more: str) -> v.Verdict:
    rank = made.of_rank(0, 0, [*made.raised(NCCL), *more])
    return made.judged(
        made.console(
            made.of_task(0, rank, made.noticed(0, 700, 1)),
            made.of_task(0, made.table((0, 0, 1, 700), errors={0: NCCL})),
            made.task_ended("c1", 0),
        ),
        made.accounting("FAILED"),
    )


@pytest.mark.parametrize(
    ("last", "cause"),
    [
        ("Cuda failure 2 'out of memory'", "memory.gpu-oom"),
        ("Failed to CUDA calloc async 608 bytes", "memory.gpu-oom"),
        ("Cuda failure 700 'an illegal memory access was encountered'", "gpu.illegal-access"),
        ("Cuda failure 1 'invalid argument'", "collective.error"),
    ],
)
def test_an_error_of_the_card_that_nccl_met_is_the_cards(last: str, cause: str) -> None:
    verdict = refused("ncclUnhandledCudaError: Call to CUDA function failed.", "Last error:", last)

    assert (verdict.cause.id, verdict.cause.confidence) == (cause, v.LIKELY)
    assert verdict.initiator.rank == 0
