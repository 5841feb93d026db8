"""The stores that the tests run on: SQLite files, and a real PostgreSQL server of their own.

The server is Debian's (tests/setup.sh installs it), started once a session in a folder of its own,
reached by a unix socket only, as a user without rights where the tests run as root. A test gets a
database of its own in it. A test may stop, kill and start the server; it must be up at its end.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

USER = "firstfault"
_ACCOUNTS = ("postgres", "nobody")
_START_S = 60


class PostgreSQL:
    """A server in a folder of its own; `start` after `stop` or `kill` finds the same databases."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="ff-pg-"))
        self._account = _account() if os.geteuid() == 0 else None
        if self._account is not None:
            os.chown(self.folder, self._account.pw_uid, self._account.pw_gid)
        self._process: subprocess.Popen[bytes] | None = None
        made = subprocess.run(
            self._command(
                "initdb",
                f"--username={USER}",
                "--auth=trust",
                "--no-sync",
                "--encoding=UTF8",
                "--locale=C",
            ),
            capture_output=True,
            cwd=self.folder,
            text=True,
            check=False,
        )
        assert made.returncode == 0, made.stderr
        self.start()

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        settings = [
            ("listen_addresses", ""),
            ("unix_socket_directories", str(self.folder)),
            # What a killed server had committed is there again; only a power cut loses it.
            ("fsync", "off"),
            ("max_connections", "60"),
            ("shared_buffers", "32MB"),
        ]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command("postgres", *(f"--{name}={value}" for name, value in settings)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )
        end = time.monotonic() + _START_S
        while not self._answers():
            assert self._process.poll() is None and time.monotonic() < end, self.log()
            time.sleep(0.05)

    def stop(self) -> None:
        """Ends it in order: connections are cut, nothing is lost."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Ends it at once, as a crash does; the next start recovers."""
        self._end(signal.SIGQUIT)

    def create(self) -> str:
        """The URL of a new, empty database."""
        name = f"t{uuid.uuid4().hex[:16]}"
        self._run(f"CREATE DATABASE {name}")
        return f"postgresql+psycopg://{USER}@/{name}?host={self.folder}"

    def drop(self, url: str) -> None:
        """Removes a database that `create` gave, whoever is connected."""
        name = url.partition("@/")[2].partition("?")[0]
        self._run(f"DROP DATABASE {name} WITH (FORCE)")

    def log(self) -> str:
        """What the server has said."""
        return (self.folder / "log").read_text("utf-8", "replace")

    def remove(self) -> None:
        """Ends the server and removes its folder."""
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.folder)

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(_START_S)
        self._process = None

    def _answers(self) -> bool:
        import psycopg

        try:
            self._run("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(
            host=str(self.folder), user=USER, dbname="postgres", autocommit=True
        ) as connection:
            connection.execute(statement.encode())

    def _command(self, program: str, *arguments: str) -> list[str]:
        # The server must not outlive a pytest that was killed.
        command = ["setpriv", "--pdeathsig", "QUIT"]
        if self._account is not None:
            command += ["--reuid", str(self._account.pw_uid), "--regid", str(self._account.pw_gid)]
            command += ["--clear-groups"]
        return [*command, str(self._programs / program), "-D", f"{self.folder}/data", *arguments]


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """The session's PostgreSQL server."""
    reason = _missing()
    if reason is not None and os.environ.get("FIRSTFAULT_REQUIRE_CLUSTER") == "1":
        pytest.fail(f"FIRSTFAULT_REQUIRE_CLUSTER=1, and {reason}", pytrace=False)
    if reason is not None:
        pytest.skip(f"no PostgreSQL: {reason}")
    programs = _programs()
    assert programs is not None
    server = PostgreSQL(programs)
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a new, empty store: the test runs on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/ff.db"
        return
    server = request.getfixturevalue("postgresql")
    url = server.create()
    yield url
    server.drop(url)


@pytest.fixture
def postgresql_url(postgresql: PostgreSQL) -> Iterator[str]:
    """The URL of a new, empty PostgreSQL database, for what is true of PostgreSQL alone."""
    url = postgresql.create()
    yield url
    postgresql.drop(url)


def _missing() -> str | None:
    """Why no server can be started here, None where one can."""
    if _programs() is None:
        return "its server is not installed (Debian: postgresql)"
    if importlib.util.find_spec("psycopg") is None:
        return 'its driver is not installed (pip install -e ".[postgresql]")'
    if shutil.which("setpriv") is None:
        return "setpriv is not installed (Debian: util-linux)"
    return None


def _programs() -> Path | None:
    """The folder of initdb and postgres, of the newest version that is installed."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4])
    )
    if found:
        return found[-1].parent
    path = shutil.which("initdb")
    return None if path is None else Path(path).resolve().parent


def _account() -> pwd.struct_passwd:
    """Whom the server runs as where the tests run as root: it refuses to run as root itself."""
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return next(known[name] for name in _ACCOUNTS if name in known)
