"""The kernel's table of tasks: what others' processes held is there, who ran what is not."""

from __future__ import annotations

import pytest

from firstfault.model import evidence
from firstfault.model.event import HeldTogether, OomKill
from firstfault.readers.kernel import kernel_events
from firstfault.readers.times import Zone
from firstfault_epilog import kernel, kernel_evidence, oom_table
from tests.epilog.node import OOM_AT_S, RECORDED_OFFSET_S, Node, end_job_at, file_of

# mm/oom_kill.c of 6.18, 4.18 and 2.6.32.
TITLES = {
    "6.18": "[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name",
    "4.18": "[ pid ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
    "2.6.32": "[ pid ]   uid  tgid total_vm      rss cpu oom_adj oom_score_adj name",
}


def row(version: str, pid: int, uid: int, rss: int, name: str) -> str:
    middle = {
        "6.18": f"{rss:8} {0:8} {0:9} {4096:8} {0:8} {0:13}",
        "4.18": f"{4096:8} {0:8} {0:13}",
        "2.6.32": f"{3:3} {0:7} {0:13}",
    }[version]
    return f"[{pid:7}] {uid:5} {pid:5} {rss * 2:8} {rss:8} {middle} {name}"


def block(version: str, others: int = 3, uid: int = 1001) -> list[str]:
    return [
        "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
        "Tasks state (memory values in pages):",
        TITLES[version],
        row(version, 411, 0, 900, "slurmd"),
        row(version, 500, uid, 512101, "my training"),
        *(row(version, 600 + n, 1002, 1000 + n, f"secret {n}") for n in range(others)),
        row(version, 700, uid, 7, "bash"),
        row(version, 800, 1003, 9, "another"),
        f"oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
        f"task_memcg=/slurm_n3/uid_{uid}/job_12/step_0/task_0,task=my training,pid=500,uid={uid}",
        f"Out of memory: Killed process 500 (my training) total-vm:4096808kB, anon-rss:2048404kB, "
        f"file-rss:0kB, shmem-rss:0kB, UID:{uid} pgtables:4kB oom_score_adj:0",
    ]


def lines(texts: list[str]) -> tuple[kernel.Line, ...]:
    at = int(OOM_AT_S * 1e6)
    raw = "".join(f"6,{n + 1},{at + n},-;{text}\n" for n, text in enumerate(texts))
    return kernel.parse(raw.encode())


@pytest.mark.parametrize("version", TITLES)
def test_others_become_one_row_with_their_sums(version: str) -> None:
    texts = [line.text.decode() for line in oom_table.reduced(lines(block(version)), 1001)]

    assert not any("secret" in text or "another" in text or " 1002 " in text for text in texts)
    assert sum("slurmd" in text or "my training" in text or "bash" in text for text in texts) == 5
    (others,) = [text for text in texts if text.startswith("[0] ")]
    columns = dict(
        zip(TITLES[version].split("]")[1].split(), others.split("]")[1].split(), strict=True)
    )
    assert columns["rss"] == str(1000 + 1001 + 1002 + 9)
    assert columns["total_vm"] == str(2 * (1000 + 1001 + 1002 + 9))
    assert (columns["uid"], columns["name"]) == ("65534", "others(4)")


@pytest.mark.parametrize("version", TITLES)
@pytest.mark.parametrize("others", [0, 1, 40])
def test_excerpts_stay_in_order_and_do_not_overlap(version: str, others: int) -> None:
    selection = kernel_evidence.select(oom_table.reduced(lines(block(version, others)), 1001))

    end = 0
    for excerpt in selection.excerpts:
        assert excerpt.offset >= end
        end = excerpt.offset + len(excerpt.data)
    assert b"others(" in b"".join(excerpt.data for excerpt in selection.excerpts)


def test_without_a_table_or_without_others_nothing_changes() -> None:
    own = [text for text in block("6.18", 0) if "another" not in text]

    for texts in (own, ["[  600]  1002   600  1 2 3 4 5 6 name"], ["usb 1-1: new device"]):
        assert oom_table.reduced(lines(texts), 1001) == list(lines(texts))


def test_a_second_table_is_reduced_by_itself() -> None:
    texts = block("6.18", 2) + block("6.18", 5)

    found = [line.text for line in oom_table.reduced(lines(texts), 1001)]

    names = [text.split()[-1] for text in found if text.startswith(b"[0] ")]
    assert names == [b"others(3)", b"others(6)"]


def test_the_daemon_reads_the_reduced_table(node: Node) -> None:
    uid = 4242
    node.kmsg.write_bytes(b"".join(line.data for line in lines(block("6.18", 3, uid))))
    end_job_at(
        node, RECORDED_OFFSET_S + OOM_AT_S + 3, SLURM_JOB_UID=str(uid), SLURM_JOB_GID=str(uid)
    )

    done = node.collect()

    assert (done.returncode, done.stderr) == (0, "")
    (record,) = node.records()
    assert b"secret" not in file_of(record, str(node.kmsg))
    (document,) = [d for d in evidence.documents(record) if d.what == "kernel"]
    (kill,) = [e for e in kernel_events(document, Zone()) if isinstance(e, OomKill)]
    assert (kill.pid, kill.uid, kill.limited) == (500, uid, False)
    assert (kill.holders[0].command, kill.holders[0].resident_kb) == ("my training", 512101 * 4)
    assert kill.others == HeldTogether(4, (1000 + 1001 + 1002 + 9) * 4)
