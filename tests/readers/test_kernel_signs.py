"""What signatures know of a kernel's lines, and what the lines after them add."""

from __future__ import annotations

import pytest

from firstfault.model.event import KernelSign, Trap
from firstfault.readers.kernel import kernel_events
from firstfault.signatures import signatures
from tests.readers.logs import ZONE, document
from tests.readers.test_kernel import log

HUNG = "INFO: task python3:700 blocked for more than 120 seconds."
STATE = "task:python3         state:D stack:0     pid:700   tgid:700   ppid:1      flags:0x00000002"
LOST = "nfs: server files3 not responding, still trying"
LUSTRE = (
    "Lustre: work-OST0003-osc-ffff8f1234560000: Connection to work-OST0003 (at 10.0.0.9@o2ib) was "
    "lost; in progress operations using this service will wait for recovery to complete"
)


def signs(*texts: str) -> list[KernelSign]:
    events = kernel_events(document(log(list(texts)), "dmesg.txt", host="n1"), ZONE)
    return [event for event in events if isinstance(event, KernelSign)]


SAMPLES = [
    (each.signature, sample) for each in signatures("kernel") for sample in each.signature.samples
]


@pytest.mark.parametrize(("signature", "sample"), SAMPLES, ids=[sample for _, sample in SAMPLES])
def test_the_reader_finds_each_signatures_samples(signature: object, sample: str) -> None:
    (sign,) = signs(sample)

    assert (sign.signature, sign.means) == (signature.id, signature.means)  # type: ignore[attr-defined]
    assert sign.host == "n1"


@pytest.mark.parametrize(
    ("frame", "module"),
    [
        (" nfs_wait_bit_killable+0x1e/0xa0 [nfs]", "NFS"),
        ("[<ffffffffa03b5d2e>] rpc_wait_bit_killable+0x24/0xb0 [sunrpc]", "NFS"),
        (" ? cl_sync_io_wait+0x1a2/0x400 [obdclass]", "Lustre"),
        (" cxiWaitEventWait+0x1f/0x30 [mmfslinux]", "GPFS"),
        (" xfs_buf_iowait+0x22/0xf0 [xfs]", "XFS"),
        (" jbd2_log_wait_commit+0xe6/0x150", "ext4"),
        (" folio_wait_bit_common+0x13d/0x350", "the disk"),
        ("[<ffffffff8120ccff>] do_last+0x28f/0x12a0", "a file system"),
        (
            "[<803db1c4>] (nfs_file_fsync) from [<8029d0c4>] (vfs_fsync_range+0x44/0xa8)",
            "a file system",
        ),
        ("[<803db1c4>] (x) from [<803db1c4>] (nfs_file_fsync+0x30/0x280)", "NFS"),
    ],
)
def test_a_hung_tasks_stack_names_the_file_system(frame: str, module: str) -> None:
    (sign,) = signs(HUNG, STATE, "Call Trace:", " <TASK>", " __schedule+0x2cb/0x760", frame)

    assert (sign.pid, sign.command, sign.means) == (700, "python3", "storage.hang")
    assert dict(sign.facts) == {"seconds": "120", "module": module}


def test_a_hung_task_that_waits_elsewhere_is_only_stuck() -> None:
    (sign,) = signs(
        HUNG, STATE, " rwsem_down_write_slowpath+0x2a3/0x500", " os_acquire+0x1/0x2 [nvidia]"
    )

    assert sign.means == "process.stuck"


def test_a_file_system_says_more_than_the_disk_below_it() -> None:
    (sign,) = signs(HUNG, " io_schedule+0x46/0x80", " nfs_wait_on_request+0x1/0x2 [nfs]")

    assert dict(sign.facts)["module"] == "NFS"


def test_a_dump_names_the_process_that_an_oops_hit() -> None:
    (sign,) = signs(
        "BUG: kernel NULL pointer dereference, address: 0000000000000018",
        "#PF: supervisor read access in kernel mode",
        "CPU: 3 PID: 700 Comm: python3 Tainted: P           OE      6.1.0 #1",
    )

    assert (sign.pid, sign.command) == (700, "python3")


@pytest.mark.parametrize(
    ("inline", "below"),
    [
        (", for process python3 pid 4381 thread python3 pid 4381", ""),
        ("", " Process python3 pid 4381 thread python3 pid 4381"),
    ],
)
def test_a_page_fault_of_amdgpu_names_its_process(inline: str, below: str) -> None:
    card = "amdgpu 0000:3b:00.0: amdgpu: "
    fault = f"{card}[gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:8 pasid:32769{inline})"
    (sign,) = signs(
        fault, card + below, f"{card}  in page starting at address 0x7f00 from client 27"
    )

    assert (sign.pid, sign.command) == (4381, "python3")


def test_a_server_that_answers_again_is_marked() -> None:
    lost, other = signs(LOST, LOST.replace("files3", "files4"), "nfs: server files3 OK")

    assert dict(lost.facts)["recovered"] == "yes"
    assert "recovered" not in dict(other.facts)


def test_a_restored_lustre_connection_is_marked() -> None:
    restored = "Lustre: work-OST0003-osc-ffff8f1234560000: Connection restored to work-OST0003 (at 10.0.0.9@o2ib)"
    (sign,) = signs(LUSTRE, restored)

    assert dict(sign.facts)["recovered"] == "yes"


@pytest.mark.parametrize(
    "text",
    [
        "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: cc00008000010092",
        "mce: [Hardware Error]: Machine check events logged",
        "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x3f)",
        "Memory failure: 0x3f41c0: recovery action for dirty LRU page: Recovered",
        "pcieport 0000:3a:00.0: AER: Corrected error received: 0000:3a:00.0",
        "EXT4-fs (sdb1): mounted filesystem with ordered data mode. Opts: errors=remount-ro",
    ],
)
def test_what_was_corrected_is_no_sign(text: str) -> None:
    assert signs(text) == []


def test_a_line_that_a_program_wrote_is_no_sign() -> None:
    text = "12,500,1629472548,-;Kernel panic - not syncing: Fatal machine check\n"

    assert list(kernel_events(document(text), ZONE)) == []


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("python3[700]: segfault at 8 ip 07f sp 07f error 4 in a.so[7f+1] likely on CPU 3 (core 1, socket 0)", "segfault"),
        ("traps: python3[700] trap int3 ip:55d sp:7ff error:0 in a.so[55+1]", "trap int3"),
        ("python3[700]: segfault (11) at 8 nip 7fff lr 7fff code 1 in a.so[7f+1]", "segfault"),
        ("python3[700]: unhandled exception: DABT (lower EL), ESR 0x92000006, in a.so[7f+1]", "unhandled exception"),
    ],
)  # fmt: skip
def test_a_fatal_fault_is_read_on_every_machine(line: str, kind: str) -> None:
    (trap,) = kernel_events(document(log([line])), ZONE)

    assert isinstance(trap, Trap)
    assert (trap.pid, trap.kind, trap.library) == (700, kind, "a.so")


def test_the_line_after_a_fatal_signal_names_the_process() -> None:
    texts = [
        "potentially unexpected fatal signal 11.",
        "CPU: 3 UID: 1001 PID: 700 Comm: python3 Not tainted 6.18.44 #1",
    ]
    (trap,) = kernel_events(document(log(texts)), ZONE)

    assert isinstance(trap, Trap)
    assert (trap.pid, trap.command, trap.kind) == (700, "python3", "signal 11")
