"""What the kernel's signs mean for a job."""

from __future__ import annotations

import pytest

from firstfault.model import verdict as v
from firstfault.model.document import Document
from tests.diagnosis import made

NFS = "nfs: server files3 not responding, still trying"
PANIC = "Kernel panic - not syncing: Fatal exception in interrupt"
CHECK = "mce: [Hardware Error]: CPU 9: Machine Check Exception: 5 Bank 6: bb00000040000e0b"
CORRECTED = "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: cc00008000010092"
BLOCK = (
    "blk_update_request: I/O error, dev sdb, sector 41000 op 0x0:(READ) flags 0x0 phys_seg 1 prio"
)
POISON = "Memory failure: 0x3f41c0: Killing python3:700 due to hardware memory corruption"
HUNG = [
    "INFO: task python3:700 blocked for more than 120 seconds.",
    " nfs_wait_bit_killable+0x1e/0xa0 [nfs]",
]
EIO = "OSError: [Errno 5] Input/output error: '/data/shard-7'"


def said(*texts: str, at_s: int = 1000, prefix: int = 3) -> list[str]:
    return [f"{prefix},{at_s + n},{at_s + n}000000,-;{text}" for n, text in enumerate(texts)]


def later_job(state: str) -> Document:
    """Accounting of a job that began 15 minutes after its nodes had booted."""
    data = made.accounting(state).excerpts[0].data
    late = data.replace(b"2026-11-30T09:00:00", b"2026-11-30T09:58:00")
    return made.document("sacct.txt", late.decode().splitlines())


def failed_node(host: str = "c2") -> Document:
    return made.console(
        [f"srun: error: Node failure on {host}"],
        made.cancelled("JOB 500", "c1", made.NODE_FAILURE),
    )


def lost_peers() -> Document:
    """All ranks of the job lost a peer; nothing tells why."""
    return made.console(
        made.of_task(0, made.of_rank(0, 0, made.raised(made.PEER)), made.noticed(0, 700, 1)),
        made.of_task(0, made.table((0, 0, 1, 700), errors={0: made.PEER})),
        made.task_ended("c1", 0),
    )


def died(code: int) -> Document:
    return made.console(
        made.of_task(0, made.noticed(0, 700, code), made.table((0, 0, code, 700))),
        made.task_ended("c1", 0),
    )


def test_a_panic_is_the_narrower_cause_of_a_node_that_slurm_calls_failed() -> None:
    verdict = made.judged(
        failed_node(),
        made.kernel_log("c2", said(PANIC)),
        made.accounting("NODE_FAIL"),
    )

    assert (verdict.cause.id, verdict.cause.confidence) == ("node.kernel", v.CONFIRMED)
    assert verdict.initiator.host == "c2"
    assert "Fatal exception in interrupt" in verdict.cause.title


def test_a_machine_check_before_a_panic_is_its_cause() -> None:
    verdict = made.judged(
        failed_node(), made.kernel_log("c2", said(CHECK, PANIC)), made.accounting("NODE_FAIL")
    )

    assert (verdict.cause.id, verdict.cause.confidence) == ("node.machine-check", v.CONFIRMED)


def test_a_panic_of_another_host_does_not_narrow_a_nodes_failure() -> None:
    verdict = made.judged(
        failed_node("c2"), made.kernel_log("c7", said(PANIC)), made.accounting("NODE_FAIL")
    )

    assert verdict.cause.id == "slurm.node-fail"


def test_a_panic_before_the_job_began_is_none_of_its() -> None:
    verdict = made.judged(
        failed_node(), made.kernel_log("c2", said(PANIC, at_s=100)), later_job("NODE_FAIL")
    )

    assert verdict.cause.id == "slurm.node-fail"


def test_a_kernel_log_alone_with_a_panic_is_sure() -> None:
    verdict = made.judged(made.kernel_log("c2", said(CHECK, PANIC)))

    assert (verdict.cause.id, verdict.cause.confidence) == ("node.machine-check", v.CONFIRMED)


def test_a_poisoned_page_is_why_a_rank_died_of_sigbus() -> None:
    verdict = made.judged(died(-7), made.kernel_log("c1", said(POISON)), made.accounting("FAILED"))

    assert (verdict.cause.id, verdict.cause.confidence) == ("node.machine-check", v.CONFIRMED)
    assert (verdict.initiator.rank, verdict.initiator.host) == (0, "c1")


@pytest.mark.parametrize(("host", "code"), [("c2", -7), ("c1", 1)])
def test_a_poisoned_page_of_another_host_or_of_a_rank_that_died_otherwise_is_not(
    host: str, code: int
) -> None:
    verdict = made.judged(
        died(code), made.kernel_log(host, said(POISON)), made.accounting("FAILED")
    )

    assert made.sure_cause(verdict) != "node.machine-check"


def test_a_ranks_own_io_error_and_the_kernels_agree() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.of_rank(0, 0, made.raised(EIO)), made.noticed(0, 700, 1)),
            made.of_task(0, made.table((0, 0, 1, 700), errors={0: EIO})),
            made.task_ended("c1", 0),
        ),
        made.kernel_log("c1", said(BLOCK)),
        made.accounting("FAILED"),
    )

    assert (verdict.cause.id, verdict.initiator.rank) == ("storage.io-error", 0)
    assert any(each.source == "kernel log" for each in verdict.evidence)


def test_an_exception_of_the_programs_own_stands_above_a_disk_that_had_errors() -> None:
    error = "ValueError: shapes differ"
    verdict = made.judged(
        made.console(
            made.of_task(0, made.of_rank(0, 0, made.raised(error)), made.noticed(0, 700, 1)),
            made.of_task(0, made.table((0, 0, 1, 700), errors={0: error})),
            made.task_ended("c1", 0),
        ),
        made.kernel_log("c1", said(BLOCK, NFS, *HUNG)),
        made.accounting("FAILED"),
    )

    assert (verdict.cause.id, verdict.cause.confidence) == ("python.exception", v.CONFIRMED)
    assert len(verdict.unexplained) == 3


def test_a_hung_rank_is_why_the_job_reached_its_limit() -> None:
    verdict = made.judged(
        made.console(
            made.of_task(0, made.closed(700), made.agent_stopped()),
            made.cancelled("STEP 500.0", "c1", made.LIMIT, "10:30:00"),
            made.of_task(0, made.noticed(0, 700, -15), made.table((0, 0, -15, 700))),
            made.task_ended("c1", 0, "Terminated"),
        ),
        made.kernel_log("c1", said(*HUNG, NFS)),
        made.accounting("TIMEOUT", "0:0"),
    )

    assert (verdict.cause.id, verdict.cause.confidence) == ("storage.hang", v.LIKELY)
    assert (verdict.initiator.rank, verdict.initiator.host) == (0, "c1")
    assert [each.cause for each in verdict.alternatives] == ["slurm.time-limit"]


def test_ranks_that_lost_peers_and_a_server_that_did_not_answer_are_likely_a_hang() -> None:
    verdict = made.judged(lost_peers(), made.kernel_log("c1", said(NFS)), made.accounting("FAILED"))

    assert (verdict.cause.id, verdict.cause.confidence) == ("storage.hang", v.LIKELY)
    assert verdict.cause.title == ("Node c1 waited for a file server that did not answer: files3")


@pytest.mark.parametrize(
    "lines",
    [
        said(NFS, "nfs: server files3 OK"),
        said(CORRECTED),
        said(PANIC, prefix=12),
        said(NFS, at_s=100),
    ],
    ids=["found again", "corrected", "a program's line", "long before"],
)
def test_what_is_well_again_or_of_another_time_counts_for_nothing(lines: list[str]) -> None:
    verdict = made.judged(lost_peers(), made.kernel_log("c1", lines), later_job("FAILED"))

    assert not verdict.cause.id.startswith(("storage.", "node."))


def test_what_a_node_survives_does_a_job_that_went_well_no_harm() -> None:
    healthy = made.console(made.of_rank(0, 0, ["step 1 loss 0.3", "step 2 loss 0.2"]))
    verdict = made.judged(healthy, made.kernel_log("c1", said(BLOCK, NFS, *HUNG)))

    assert verdict.cause.id in ("none", "unknown")


def test_a_kernels_line_in_the_jobs_own_output_is_sure_of_nothing() -> None:
    text = [
        "[ 1629.472500] Memory cgroup out of memory: Killed process 700 (python3) total-vm:9kB, "
    ]
    console = made.console(
        made.noticed(0, 700, -9), made.table((0, 0, -9, 700)), made.task_ended("c1", 0), text
    )
    verdict = made.judged(console)

    assert verdict.cause.confidence != v.CONFIRMED


@pytest.mark.parametrize(
    "line",
    [
        f"[ 1629.472500] {PANIC}",
        "[ 1629.472500] Memory cgroup out of memory: Killed process 811 (python3) total-vm:9kB, ",
        f"[ 1629.472500] {BLOCK}",
    ],
)
def test_a_kernels_line_that_a_program_printed_takes_nothing_from_an_exception(line: str) -> None:
    error = "ValueError: shapes differ"
    verdict = made.judged(
        made.console(
            [line],
            made.of_task(0, made.of_rank(0, 0, made.raised(error)), made.noticed(0, 700, 1)),
            made.of_task(0, made.table((0, 0, 1, 700), errors={0: error})),
            made.task_ended("c1", 0),
        ),
        made.accounting("FAILED"),
    )

    assert (verdict.cause.id, verdict.cause.confidence) == ("python.exception", v.CONFIRMED)


def test_a_card_that_the_bus_lost_says_more_than_the_bus() -> None:
    verdict = made.judged(
        made.kernel_log(
            "c1",
            said(
                "pcieport 0000:3a:01.0: AER: Uncorrected (Fatal) error received: 0000:3a:01.0",
                "pcieport 0000:3a:01.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Receiver ID)",
                "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            ),
        )
    )

    assert verdict.cause.id == "gpu.bus-lost"
    assert verdict.initiator.host == "c1"
