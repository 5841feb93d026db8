"""Ranks that lines of nobody in particular state themselves."""

from __future__ import annotations

from firstfault.model import verdict as v
from tests.diagnosis import made

UNUSED = [
    "RuntimeErrorExpected to have finished reduction in the prior iteration before starting a new "
    "one. This error indicates that your module has parameters that were not used in producing loss."
]
ECC = "NCCL watchdog thread terminated with exception: CUDA error: uncorrectable ECC error encountered"


def test_the_rank_whose_parameters_have_no_gradients_is_the_one_named() -> None:
    lines = [*UNUSED, "Parameter indices which did not receive grad for rank 3: 7 8 9"]
    verdict = made.judged(made.console(lines))

    assert verdict.cause.id == "training.unused-parameters"
    assert (verdict.initiator.rank, verdict.initiator.confidence) == (3, v.POSSIBLE)


def test_of_several_that_are_named_none_is_chosen() -> None:
    lines = [f"Parameter indices which did not receive grad for rank {rank}: 7" for rank in (3, 5)]
    verdict = made.judged(made.console([*UNUSED, *lines]))

    assert verdict.cause.id == "training.unused-parameters"
    assert verdict.initiator.rank is None


def test_a_watchdog_without_a_prefix_names_the_rank_whose_card_failed() -> None:
    verdict = made.judged(made.console([f"[E ProcessGroupNCCL.cpp:916] [Rank 1] {ECC}"]))

    assert verdict.cause.id == "gpu.ecc"
    assert (verdict.initiator.rank, verdict.initiator.confidence) == (1, v.POSSIBLE)
