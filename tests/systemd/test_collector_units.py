"""The collector's units under a real systemd: started by the path unit, within their limits."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.session import TOP
from tests.epilog import former_boot
from tests.systemd.machine import Machine

pytestmark = [pytest.mark.slow]

USER = "firstfault-alice"
SPOOL = Path("var/spool/firstfault")
OUTPUT = 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\nValueError: bad\n'


@pytest.fixture(scope="module")
def node(machine: Machine) -> Machine:
    """A node with the collector installed as docs/collector.md says, and a user."""
    machine.run("groupadd", "--force", "firstfault")
    machine.run("useradd", "--system", "--home-dir", f"/home/{USER}", "--create-home", USER)
    machine.run("install", "-d", "-m", "2770", "-g", "firstfault", f"/{SPOOL}")
    machine.run("chmod", "0700", f"/home/{USER}")
    machine.run("/bin/sh", f"{TOP}/epilog/install-node")
    return machine


def end_job(node: Machine, job: str, started_at_s: float | None = None) -> None:
    """Runs the Epilog as slurmd would at a failed job's end; by default it ran for a minute."""
    if started_at_s is None:
        started_at_s = time.time() - 60
    uid = node.run("id", "-u", USER).strip()
    facts = {
        "SLURM_JOB_ID": job,
        "SLURMD_NODENAME": "n1",
        "SLURM_JOB_UID": uid,
        "SLURM_JOB_GID": node.run("id", "-g", USER).strip(),
        "SLURM_JOB_USER": USER,
        "SLURM_JOB_WORK_DIR": f"/home/{USER}",
        "SLURM_NODELIST": "n1",
        "SLURM_JOB_EXIT_CODE": "256",
        "SLURM_JOB_START_TIME": str(int(started_at_s)),
    }
    said = "".join(f"{name}={value}\n" for name, value in facts.items())
    script = "env -i " + " ".join(said.split("\n")) + "/usr/lib/firstfault/firstfault-epilog"
    node.run("/bin/sh", "-c", script)


def record(node: Machine, job: str) -> dict[str, Any]:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for path in (node.root / SPOOL).glob(f"*-{job}-n1-*.json.gz"):
            found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
            return found
        time.sleep(0.2)
    raise AssertionError(node.run("systemctl", "status", "--no-pager", "firstfault-collector*"))


def test_the_path_unit_starts_the_collector_which_reads_the_owners_files(node: Machine) -> None:
    output = node.root / f"home/{USER}/slurm-71.out"
    output.write_text(OUTPUT)
    node.run("chown", USER, f"/home/{USER}/slurm-71.out")
    node.run("chmod", "0600", f"/home/{USER}/slurm-71.out")

    end_job(node, "71")

    found = record(node, "71")
    texts = [e["text"] for f in found["files"] if f["what"] == "job-output" for e in f["excerpts"]]
    assert texts == [OUTPUT]
    assert found["clock"]["method"] == "kmsg-marker"
    assert "kernel" in {row["what"] for row in found["coverage"] if row["state"] != "none"}


def test_byte_code_for_the_nodes_python_is_put_beside_the_archive(node: Machine) -> None:
    made = list((node.root / "usr/lib/firstfault/versions").glob("*/firstfault-epilog.*.pyz"))

    assert [path.name.split("-")[1].split(".")[1] for path in made] == ["cpython"]


def test_it_runs_in_a_slice_of_its_own(node: Machine) -> None:
    assert node.shown("firstfault-collector.service", "Slice") == "firstfault-collector.slice"
    assert node.shown("firstfault-collector.slice", "CPUQuotaPerSecUSec") == "1s"
    assert node.shown("firstfault-collector.slice", "MemoryMax") == str(384 << 20)


def test_the_timer_asks_again_for_what_could_not_be_written(node: Machine) -> None:
    node.run("mv", f"/{SPOOL}", f"/{SPOOL}.away")
    end_job(node, "72")
    until = time.monotonic() + 60
    while "spool" not in node.journal("firstfault-collector.service"):
        assert time.monotonic() < until
        time.sleep(0.2)
    # The pause that keeps systemd from starting it over and over.
    assert node.shown("firstfault-collector.service", "ActiveState") == "activating"
    node.run("mv", f"/{SPOOL}.away", f"/{SPOOL}")

    node.run("systemctl", "stop", "firstfault-collector.service")
    node.run("systemctl", "start", "firstfault-collector.service")

    assert record(node, "72")["job"] == "72"
    assert node.shown("firstfault-collector.timer", "ActiveState") == "active"


def test_what_the_kernel_said_before_the_boot_is_read_from_journal_and_pstore(
    node: Machine,
) -> None:
    reason = former_boot.missing()
    if reason is not None:
        pytest.skip(reason)
    booted_at_s = time.time() - float(Path("/proc/uptime").read_text().split()[0])
    began_at_s = booted_at_s - 5000
    machine_id = node.run("cat", "/etc/machine-id").strip()
    folder = node.root / "var/log/journal" / machine_id
    folder.mkdir(parents=True, exist_ok=True)
    lines = [(0.5, "Linux version 6.1"), (4800.25, "BUG: unable to handle page fault")]
    former_boot.write_journal(
        folder / f"system@{former_boot.ID}.journal", began_at_s, lines, machine_id=machine_id
    )
    node.run("chown", "-R", "root:systemd-journal", "/var/log/journal")
    node.run("chmod", "0640", f"/var/log/journal/{machine_id}/system@{former_boot.ID}.journal")
    last = [lines[1], (4800.5, "Kernel panic - not syncing: Fatal exception")]
    former_boot.write_pstore(node.root / "var/lib/systemd/pstore/1", began_at_s + 4801, [last])

    end_job(node, "73", booted_at_s - 600)

    found = record(node, "73")
    kernel = [file for file in found["files"] if file.get("boot_id") == former_boot.ID]
    text = "".join(e["text"] for file in kernel for e in file["excerpts"])
    assert "page fault" in text and "Kernel panic" in text and "Linux version" not in text
    assert abs(kernel[0]["kernel_offset_s"] - began_at_s) < 1
    (row,) = [row for row in found["coverage"] if row["reason"] == "rebooted"]
    assert "journalctl -k -b" in row["detail"] and "/var/lib/systemd/pstore" in row["detail"]


def test_taken_off_it_leaves_scripts_that_do_nothing_and_no_unit(node: Machine) -> None:
    node.run("/bin/sh", f"{TOP}/epilog/install-node", "--uninstall")

    assert node.run("/usr/lib/firstfault/firstfault-epilog") == ""
    assert node.shown("firstfault-collector.path", "LoadState") == "not-found"
