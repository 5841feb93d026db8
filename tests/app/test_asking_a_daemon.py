"""A whole daemon, asked by its own commands and by a program, from who they are by MUNGE."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import requests

from tests.app.processes import Daemon, configure
from tests.app.test_serve import TRACEBACK, put_job
from tests.intake.munged import Munged, munged

__all__ = ["munged"]


def asked(
    url: str, munged: Munged, *arguments: str, user: str | None = None
) -> subprocess.CompletedProcess[str]:
    """`firstfault` as its user runs it, elsewhere than on the daemon's host, or as another user."""
    become = "" if user is None else f"os.setresuid(*[{pwd.getpwnam(user).pw_uid}] * 3)"
    code = f"""
        import os
        import firstfault.cli_daemon, firstfault.cli_failures, firstfault.cli_nodes
        from firstfault.cli import main
        {become}
        main()
    """
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *arguments],
        env={
            "PATH": os.environ["PATH"],
            "FIRSTFAULT_URL": url,
            "FIRSTFAULT_MUNGE_SOCKET": str(munged.socket),
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_commands_ask_a_daemon_as_the_user_who_runs_them(tmp_path: Path, munged: Munged) -> None:
    config = configure(
        tmp_path,
        web={"munge": True, "admins": ["root"]},
        intake={"munge_socket": str(munged.socket)},
    )
    with Daemon(config) as daemon:
        url = daemon.wait_for(r"event=pages url=(\S+)")[1]
        put_job(tmp_path / "spool", "12")
        daemon.wait_for("event=delivered job=12")

        listed = asked(url, munged, "failures")
        shown = asked(url, munged, "job", "12")
        nodes = asked(url, munged, "nodes", "--all")
        strangers = asked(url, munged, "failures", user="nobody")
        hidden = asked(url, munged, "job", "12", user="nobody")
        no_nodes = asked(url, munged, "nodes", user="nobody")
        unknown = requests.get(f"{url}/api/v1/failures", timeout=10)

    assert "testcluster/12" in listed.stdout, listed.stderr
    assert "python.exception" in listed.stdout
    assert "RuntimeError" in shown.stdout
    assert {line.split()[0] for line in nodes.stdout.splitlines()[1:]} == {
        f"testcluster/n{number}" for number in range(1, 5)
    }
    assert (strangers.returncode, strangers.stdout) == (0, "")
    assert "is stored" in hidden.stderr
    assert no_nodes.returncode == 1
    assert unknown.status_code == 401
    assert unknown.headers["content-type"] == "application/problem+json"


def test_a_daemon_explains_a_log_that_a_program_sends(tmp_path: Path) -> None:
    with Daemon(configure(tmp_path)) as daemon:
        url = daemon.wait_for(r"event=pages url=(\S+)")[1]
        answer = requests.post(
            f"{url}/api/v1/explain",
            data=TRACEBACK.encode(),
            headers={"content-type": "text/plain"},
            timeout=60,
        )
        listed = requests.get(f"{url}/api/v1/failures", timeout=10).json()

    assert answer.status_code == 200, answer.text
    assert answer.json()["verdict"]["cause"]["id"] == "python.exception"
    assert listed["failures"] == []
