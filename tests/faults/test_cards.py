"""Cards that failed by the kernel's word, and what their host's ranks say."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from firstfault.model.document import Document
from tests.diagnosis import made
from tests.faults.test_system import lost_peers, said

LOST = (
    "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
)
ECC = "NVRM: Xid (PCI:0000:3b:00): 94, pid=700, name=python3, Contained: CE User Channel (0x9)."
LINK = "NVRM: Xid (PCI:0000:3b:00): 74, pid=4100, name=python3, NVLink: fatal error detected on link 7(0x0)"
SWITCH = "nvidia-nvswitch1: SXid (PCI:0000:0a:00.0): 20034, Fatal, Link 07 LTSSM Fault Up"
MMU = "NVRM: Xid (PCI:0000:3b:00): 31, pid=700, name=python3, Ch 0000000c, intr 00000000. MMU Fault: ENGINE GRAPHICS"
DYING = "NVRM: Xid (PCI:0000:3b:00): 43, pid=700, name=python3, Ch 0000000c"
UNKNOWN_ERROR = "torch.AcceleratorError: CUDA error: unknown error"
ILLEGAL = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
ASSERTED = "torch.AcceleratorError: CUDA error: device-side assert triggered"
UNHANDLED = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3699, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.3"


def raised(error: str) -> Document:
    return made.console(
        made.of_task(0, made.of_rank(0, 0, made.raised(error)), made.noticed(0, 700, 1)),
        made.of_task(0, made.table((0, 0, 1, 700), errors={0: error})),
        made.task_ended("c1", 0),
    )


@pytest.mark.parametrize(("line", "cause"), [(LOST, "gpu.bus-lost"), (ECC, "gpu.ecc")])
@pytest.mark.parametrize("error", [UNKNOWN_ERROR, ILLEGAL, UNHANDLED])
def test_a_card_that_failed_is_why_a_rank_of_its_host_met_a_cuda_error(
    line: str, cause: str, error: str
) -> None:
    verdict = made.judged(
        raised(error), made.kernel_log("c1", said(line)), made.accounting("FAILED")
    )

    assert (verdict.cause.id, verdict.cause.confidence) == (cause, v.CONFIRMED)
    assert (verdict.initiator.rank, verdict.initiator.host) == (0, "c1")
    assert verdict.initiator.gpu == "PCI:0000:3b:00"
    assert verdict.evidence[0].source == "kernel log"


@pytest.mark.parametrize(
    ("host", "lines"),
    [
        ("c7", said(LOST)),
        ("c1", said(DYING)),
        ("c1", said(LOST, prefix=12)),
        ("c1", said(LOST, at_s=4000)),
    ],
    ids=["another host", "a dying process", "a program's line", "after the rank had failed"],
)
def test_another_hosts_or_a_later_or_a_strangers_line_is_not(host: str, lines: list[str]) -> None:
    verdict = made.judged(
        raised(UNKNOWN_ERROR), made.kernel_log(host, lines), made.accounting("FAILED")
    )

    assert (verdict.cause.id, verdict.cause.confidence) == ("gpu.unhealthy", v.LIKELY)


def test_a_card_that_failed_long_before_is_no_ranks() -> None:
    early = said(LOST, at_s=1000)
    late = made.noticed(0, 700, 1, clock="10:40:05")
    table = made.table((0, 0, 1, 700), errors={0: UNKNOWN_ERROR})
    verdict = made.judged(
        made.console(
            made.of_task(0, made.of_rank(0, 0, made.raised(UNKNOWN_ERROR)), late),
            made.of_task(0, [line.replace("10:00:05", "10:40:05") for line in table]),
            made.task_ended("c1", 0),
        ),
        made.kernel_log("c1", early),
        made.accounting("FAILED"),
    )

    assert (verdict.cause.id, verdict.cause.confidence) == ("gpu.unhealthy", v.LIKELY)


def test_an_error_that_hit_a_process_of_nobody_known_is_likely() -> None:
    verdict = made.judged(
        raised(ILLEGAL),
        made.kernel_log("c1", said(ECC.replace("700", "4100"))),
        made.accounting("FAILED"),
    )

    assert (verdict.cause.id, verdict.cause.confidence) == ("gpu.ecc", v.LIKELY)


def test_a_link_that_failed_is_never_sure() -> None:
    verdict = made.judged(
        raised(UNHANDLED), made.kernel_log("c1", said(LINK)), made.accounting("FAILED")
    )

    assert (verdict.cause.id, verdict.cause.confidence) == ("gpu.nvlink", v.LIKELY)


def test_a_card_that_fell_off_the_bus_explains_the_faults_of_its_links() -> None:
    verdict = made.judged(made.kernel_log("c1", said(LOST, SWITCH, LINK)))

    assert (verdict.cause.id, verdict.cause.confidence) == ("gpu.bus-lost", v.CONFIRMED)
    assert (verdict.initiator.host, verdict.initiator.gpu) == ("c1", "PCI:0000:3b:00")


def test_the_drivers_word_on_a_programs_own_fault_is_a_second_line() -> None:
    verdict = made.judged(
        raised(ILLEGAL), made.kernel_log("c1", said(MMU, DYING)), made.accounting("FAILED")
    )

    assert (verdict.cause.id, verdict.cause.confidence) == ("gpu.illegal-access", v.CONFIRMED)
    assert any(each.source == "kernel log" for each in verdict.evidence)


def test_a_programs_own_assertion_is_no_cards_fault() -> None:
    verdict = made.judged(
        raised(ASSERTED), made.kernel_log("c1", said(LOST)), made.accounting("FAILED")
    )

    assert verdict.cause.id == "gpu.device-assert"


def test_an_exception_of_the_programs_own_stands_above_a_card_that_failed() -> None:
    verdict = made.judged(
        raised("ValueError: shapes differ"),
        made.kernel_log("c1", said(LOST)),
        made.accounting("FAILED"),
    )

    assert (verdict.cause.id, verdict.cause.confidence) == ("python.exception", v.CONFIRMED)


def test_a_card_that_failed_where_ranks_only_lost_their_peers_is_likely() -> None:
    verdict = made.judged(lost_peers(), made.kernel_log("c1", said(ECC)), made.accounting("FAILED"))

    assert (verdict.cause.id, verdict.cause.confidence) == ("gpu.ecc", v.LIKELY)
    assert verdict.initiator.host == "c1"


def test_a_line_without_a_time_makes_nothing_sure() -> None:
    plain = [f"[ 1012.000001] {LOST}"]
    undated = Document("dmesg", made.document("dmesg", plain).excerpts, host="c1", what="kernel")
    verdict = made.judged(raised(UNKNOWN_ERROR), undated, made.accounting("FAILED"))

    assert (verdict.cause.id, verdict.cause.confidence) == ("gpu.bus-lost", v.LIKELY)


def test_lines_that_a_program_printed_make_nothing_sure() -> None:
    own = made.console(
        [f"[Mon Nov 30 10:00:01 2026] {LOST}"],
        made.of_task(0, made.of_rank(0, 0, made.raised(UNKNOWN_ERROR)), made.noticed(0, 700, 1)),
        made.of_task(0, made.table((0, 0, 1, 700), errors={0: UNKNOWN_ERROR})),
        made.task_ended("c1", 0),
    )
    verdict = made.judged(own, made.accounting("FAILED"))

    assert verdict.cause.confidence == v.LIKELY


def test_words_of_a_program_are_not_sure_where_another_card_failed() -> None:
    later = made.kernel_log("c2", said(ECC))
    verdict = made.judged(raised(ILLEGAL), later, made.accounting("FAILED"))

    assert verdict.cause.confidence == v.LIKELY


@pytest.mark.parametrize("head", ["", "kernel: "])
def test_the_drivers_lines_without_a_head_are_the_kernels(head: str) -> None:
    verdict = made.judged(made.document("card.txt", [f"{head}{LOST}", f"{head}{SWITCH}"]))

    assert (verdict.cause.id, verdict.cause.confidence) == ("gpu.bus-lost", v.CONFIRMED)
