"""What a process said of an error of NCCL's decides what that error was."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from tests.diagnosis import made
from tests.diagnosis.recording import fabric
from tests.diagnosis.recording.two_nodes import Made, console, nccl

NO_MEMORY = "Call to ibv_create_cq failed with error Cannot allocate memory"
EXTENDED = "Error: failed to extend /dev/shm/nccl-Yx2b1c to 9637892 bytes"
FULL = "Cuda failure 2 'out of memory'"
ILLEGAL = "Cuda failure 700 'an illegal memory access was encountered'"


def judged(words: dict[int, list[str]], error: str = fabric.SYSTEM) -> v.Verdict:
    """The verdict on four ranks of which those in ``words`` raised an error of NCCL's."""
    raised = dict.fromkeys(words, error) | {n: fabric.LOST for n in range(4) if n not in words}
    case = Made("", "", "", error=raised, words=words, first=min(words))
    text = list(console(case))
    return made.judged(made.console(text), made.accounting("FAILED", nodes="n[1-2]"))


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (ILLEGAL, "gpu.illegal-access"),
        (FULL, "memory.gpu-oom"),
        (EXTENDED, "memory.shm"),
        (NO_MEMORY, "process.resource-limit"),
        (fabric.DUPLICATE.format(2, 3), "collective.config"),
        (fabric.INTERFACE, "collective.config"),
        (fabric.UNREACHABLE, "collective.network"),
    ],
)
def test_nccls_own_line_names_the_cause_of_its_error(words: str, cause: str) -> None:
    verdict = judged({2: [nccl(2, words)]})

    assert (verdict.cause.id, verdict.cause.confidence) == (cause, v.LIKELY)
    assert verdict.initiator.rank == 2


def test_the_line_that_torch_repeats_counts_too() -> None:
    error = f"{fabric.USAGE}\nncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\n{fabric.DUPLICATE.format(2, 3)}"
    verdict = judged({2: []}, error)

    assert verdict.cause.id == "collective.config"


@pytest.mark.parametrize("words", [fabric.RESET, fabric.CLOSED])
def test_an_error_that_is_a_lost_peer_by_nccls_own_line_is_no_fault(words: str) -> None:
    verdict = judged({n: [nccl(n, words)] for n in range(4)})

    assert verdict.cause.id == "collective.peer-lost"


def test_a_completion_error_alone_makes_nothing_more_than_possible() -> None:
    verdict = judged({2: [nccl(2, fabric.COMPLETION.format(7))]})

    assert (verdict.cause.id, verdict.cause.confidence) == ("collective.network", v.POSSIBLE)


def test_another_processs_line_names_nothing() -> None:
    verdict = judged({2: [nccl(2, fabric.INTERFACE).replace("6201", "7777")]})

    assert verdict.cause.id in ("collective.error", "collective.config")
    assert verdict.cause.confidence != v.CONFIRMED


def test_an_error_that_says_no_more_stays_one() -> None:
    verdict = judged({n: [] for n in range(4)})

    assert verdict.cause.id == "collective.error"


def test_nccls_lines_of_nobody_name_the_cause_of_an_error_of_nobody() -> None:
    verdict = made.judged(
        made.console(
            # Two ranks' tracebacks, the first one's head torn off by the second's.
            ['    torch.distributed  File "/home/eve/run/loop.py", line 31, in step'],
            [fabric.USAGE, "Last error:", fabric.DUPLICATE.format(3, 0)],
            [
                "    return self.forward(batch)",
                f"torch.distributed.DistBackendError: {fabric.USAGE}",
            ],
            ["Last error:", fabric.DUPLICATE.format(7, 0)],
        )
    )

    assert verdict.cause.id == "collective.config"
    assert verdict.cause.confidence != v.CONFIRMED


def test_a_call_that_a_card_refuses_does_not_blame_the_card() -> None:
    verdict = judged({2: [nccl(2, "Cuda failure 1 'invalid argument'")]})

    assert verdict.cause.id == "collective.error"


def test_an_error_of_nobody_that_is_a_lost_peer_by_its_last_error_is_no_fault() -> None:
    error = f"torch.distributed.DistBackendError: {fabric.SYSTEM}"
    last = "socketProgress: Connection closed by remote peer n4<50260>"
    lines = ["ncclSystemError: System call failed.", "Last error:", last]
    verdict = made.judged(made.console(made.raised(error), lines))

    assert verdict.cause.id == "collective.peer-lost"


def test_a_lost_peer_far_from_an_error_of_nobody_may_be_another_ones() -> None:
    error = f"torch.distributed.DistBackendError: {fabric.SYSTEM}"
    last = "socketProgress: Connection closed by remote peer n4<50260>"
    verdict = made.judged(made.console([last], made.WORK[:9], made.raised(error)))

    assert verdict.cause.id == "collective.error"


def test_a_programs_misuse_of_process_groups_is_its_own() -> None:
    error = "ValueError: trying to initialize the default process group twice!"
    verdict = made.judged(made.console(made.raised(error.replace("Value", "Runtime"))))

    assert (verdict.cause.id, verdict.cause.confidence) == ("python.exception", v.CONFIRMED)
