"""The daemon's unit under a real systemd: readiness, watchdog, reload, stop, and its hardening."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable

import pytest
import requests

from tests.cluster.session import TOP
from tests.crash import stream
from tests.systemd.machine import Machine

pytestmark = [pytest.mark.slow]

UNIT = "firstfaultd.service"


@pytest.fixture(scope="module")
def daemon(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """The daemon set up as docs/daemon.md says and started, from the installed package."""
    installed = tmp_path_factory.mktemp("installed")
    argv = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(installed)]
    subprocess.run([*argv, str(TOP)], check=True, stdin=subprocess.DEVNULL, timeout=180)
    program = machine.root / "srv/installed"
    subprocess.run(["cp", "-r", str(installed), str(program)], check=True)
    subprocess.run(["chmod", "-R", "a+rX", str(program)], check=True)
    libraries = sysconfig.get_paths()["purelib"]
    subprocess.run(["cp", "-r", libraries, str(machine.root / "srv/libraries")], check=True)
    home = "/var/lib/firstfault"
    machine.run("groupadd", "--force", "--system", "firstfault")
    machine.run(
        *("useradd", "--system", "--gid", "firstfault", "--home-dir", home),
        *("--shell", "/usr/sbin/nologin", "firstfault"),
    )
    machine.run("install", "-d", "-o", "root", "-g", "firstfault", "-m", "2770", SPOOL)
    for folder in (home, f"{home}/reports"):
        machine.run("install", "-d", "-o", "firstfault", "-g", "firstfault", "-m", "0750", folder)
    machine.run("install", "-d", "-o", "root", "-g", "firstfault", "-m", "0755", "/etc/firstfault")
    configure(machine)
    units = machine.root / "etc/systemd/system"
    text = (TOP / "etc/systemd" / UNIT).read_text()
    (units / UNIT).write_text(text)
    (units / f"{UNIT}.d").mkdir()
    # The interpreter of the tests may lie in root's home, which the unit may not see.
    (units / f"{UNIT}.d/program.conf").write_text(
        "[Service]\nExecStart=\nExecStart=/usr/bin/python3 -m firstfault serve\n"
        "Environment=PYTHONPATH=/srv/installed:/srv/libraries\nWatchdogSec=4\nRestartSec=0\n"
    )
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", UNIT, check=False)
    assert machine.shown(UNIT, "ActiveState") == "active", machine.journal(UNIT)[-3000:]
    return machine


SPOOL = "/var/spool/firstfault"


def configure(machine: Machine, level: str = "info") -> None:
    (machine.root / "etc/firstfault/firstfault.toml").write_text(
        f'[slurm]\nsource = "none"\n[web]\nport = 0\n[log]\nlevel = "{level}"\n'
    )


def wait(ready: Callable[[], bool], machine: Machine) -> None:
    until = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < until, machine.journal(UNIT)[-3000:]
        time.sleep(0.2)


def test_it_is_started_once_it_says_that_it_is_ready_and_reports_under_its_hardening(
    daemon: Machine,
) -> None:
    state = daemon.shown(UNIT, "ActiveState")
    (job,) = stream.jobs(1)
    for record in job.records:
        stream.put(daemon.root / SPOOL[1:], record)
    reports = daemon.root / "var/lib/firstfault/reports"

    assert state == "active"
    wait(lambda: any(reports.rglob("*.html")), daemon)
    assert daemon.shown(UNIT, "NRestarts") == "0"


def test_logs_that_are_sent_are_explained_under_its_hardening(daemon: Machine) -> None:
    (url,) = set(re.findall(r"event=pages url=(\S+)", daemon.journal(UNIT)))
    log = (TOP / "tests/cases/exc/slurm.out").read_bytes()
    answer = requests.post(
        f"{url}/api/v1/explain", data=log, headers={"content-type": "text/plain"}, timeout=60
    )

    assert answer.status_code == 200, answer.text + daemon.journal(UNIT)[-3000:]
    assert answer.json()["verdict"]["cause"]["id"] == "python.exception"


def test_a_reload_reads_the_configuration_again(daemon: Machine) -> None:
    configure(daemon, "debug")

    daemon.run("systemctl", "reload", UNIT)

    wait(lambda: "event=reloaded" in daemon.journal(UNIT), daemon)
    wait(lambda: daemon.shown(UNIT, "ActiveState") == "active", daemon)


def test_a_daemon_that_hangs_is_started_again_by_the_watchdog(daemon: Machine) -> None:
    before = daemon.shown(UNIT, "MainPID")
    daemon.run("kill", "-STOP", before)

    wait(lambda: daemon.shown(UNIT, "NRestarts") == "1", daemon)
    wait(lambda: daemon.shown(UNIT, "ActiveState") == "active", daemon)
    assert daemon.shown(UNIT, "MainPID") not in ("0", before)


def test_it_stops_by_itself(daemon: Machine) -> None:
    daemon.run("systemctl", "stop", UNIT)

    assert daemon.shown(UNIT, "Result") == "success"
    assert "event=stopped" in daemon.journal(UNIT)
