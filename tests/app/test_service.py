"""The daemon as a service: what it tells systemd, what signals do, and that it ends in time."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import requests

from firstfault.app.notify import Systemd
from firstfault.app.reload import needs_restart, reloaded
from firstfault.app.signals import hearing
from firstfault.config import Config, keys, parse
from tests.app.processes import Daemon, configure
from tests.app.test_serve import put_job
from tests.databases import PostgreSQL
from tests.fakes.sacct import SacctProgram
from tests.fakes.slack import SlackServer

DOCUMENTED = Path(__file__).parents[2] / "docs" / "daemon.md"


class Manager:
    """In systemd's place: the datagrams that come to its socket."""

    def __init__(self, address: str) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(address.replace("@", "\0"))
        self.sock.settimeout(30)

    def next(self) -> list[str]:
        """The next datagram's lines that is no sign of life."""
        while True:
            lines = self.sock.recv(4096).decode().splitlines()
            if lines != ["WATCHDOG=1"]:
                return lines


@pytest.fixture(params=["path", "abstract"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "notify") if request.param == "path" else f"@firstfault-{tmp_path.name}"


@pytest.fixture
def manager(address: str) -> Iterator[Manager]:
    manager = Manager(address)
    yield manager
    manager.sock.close()


def test_systemd_is_told_of_start_reload_and_end(
    tmp_path: Path, address: str, manager: Manager
) -> None:
    with Daemon(configure(tmp_path), NOTIFY_SOCKET=address) as daemon:
        assert manager.next() == ["READY=1", "STATUS=working"]
        daemon.process.send_signal(signal.SIGHUP)
        reloading, stamp = manager.next()
        assert reloading == "RELOADING=1"
        assert 0 <= time.monotonic() - int(stamp.removeprefix("MONOTONIC_USEC=")) / 1e6 < 30
        assert manager.next() == ["READY=1", "STATUS=working"]
        assert daemon.stop() == 0
        assert manager.next() == ["STOPPING=1", "STATUS=stopping"]


def test_the_watchdog_hears_of_a_daemon_that_works(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    manager = Manager(address)
    config = configure(tmp_path)
    with Daemon(config, NOTIFY_SOCKET=address, WATCHDOG_USEC="600000") as daemon:
        manager.next()
        for _ in range(5):
            assert manager.sock.recv(4096) == b"WATCHDOG=1"
        daemon.process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        manager.sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                manager.sock.recv(4096)
        daemon.process.send_signal(signal.SIGCONT)
    manager.sock.close()


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdogs_time_is_as_systemd_says(
    environment: dict[str, str], seconds: float | None
) -> None:
    assert Systemd(environment).watchdog_s == seconds


@pytest.mark.parametrize("address", ["", "/nowhere/notify", "@nobody-listens"])
def test_nobody_who_listens_is_no_error(address: str) -> None:
    Systemd({"NOTIFY_SOCKET": address}).ready()


def test_a_manager_that_does_not_read_holds_up_nothing(tmp_path: Path) -> None:
    manager = Manager(str(tmp_path / "notify"))
    systemd = Systemd({"NOTIFY_SOCKET": str(tmp_path / "notify")})
    for _ in range(2000):
        systemd.alive()
    manager.sock.close()


def test_signals_are_read_in_the_order_in_which_they_come() -> None:
    with hearing((signal.SIGHUP, signal.SIGTERM)) as heard:
        assert heard.wait(0) == []
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGTERM)

        assert heard.wait(10) == [signal.SIGHUP, signal.SIGTERM]


def test_a_changed_configuration_counts_at_once(tmp_path: Path) -> None:
    with SlackServer() as slack:
        config = configure(tmp_path, spool={"scan_s": 0.2})
        with Daemon(config) as daemon:
            daemon.wait_for("event=started")
            configure(
                tmp_path,
                spool={"scan_s": 0.2},
                slack={"webhook": slack.url},
                log={"format": "json"},
                web={"port": 1},
            )
            daemon.process.send_signal(signal.SIGHUP)
            daemon.wait_for('"event": "reloaded", "changed": "slack.webhook,log.format"')
            daemon.wait_for('"event": "restart-needed", "keys": "web.port"')
            put_job(tmp_path / "spool", "12")
            slack.wait(1, 20)
            assert daemon.stop() == 0


def test_a_receiver_and_a_slurm_that_hang_are_left_and_no_process_stays(tmp_path: Path) -> None:
    sacct = SacctProgram(tmp_path / "slurm")
    sacct.behave("hang")
    with SlackServer() as slack:
        slack.hang(1)
        config = configure(
            tmp_path,
            spool={"scan_s": 0.2},
            slack={"webhook": slack.url, "timeout_s": 25.0},
            slurm={"source": "sacct", "sacct": str(sacct.path)},
        )
        put_job(tmp_path / "spool", "12")
        with Daemon(config) as daemon:
            daemon.wait_for("event=delivered job=12 channel=report")
            wait_until(lambda: bool(processes(sacct.path)))

            assert daemon.stop() == 0

    assert "event=left-behind workers=" in daemon.said()
    wait_until(lambda: not processes(sacct.path))


def processes(program: Path) -> list[int]:
    """The processes that run a program."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(program).encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_shadow_mode_posts_nothing_then_or_later(tmp_path: Path) -> None:
    with SlackServer() as slack:
        tables = {"spool": {"scan_s": 0.2}, "slack": {"webhook": slack.url}}
        config = configure(tmp_path, **tables)
        posting = config.read_text()
        config.write_text("shadow = true\n" + posting)
        with Daemon(config) as daemon:
            daemon.wait_for("event=shadow channels=slack kept_back=0")
            put_job(tmp_path / "spool", "12")
            daemon.wait_for("event=delivered job=12 channel=report")
            config.write_text(posting)
            daemon.process.send_signal(signal.SIGHUP)
            daemon.wait_for("event=reloaded changed=shadow")
            put_job(tmp_path / "spool", "13")
            (message,) = slack.wait(1, 20)
            daemon.wait_for("event=delivered job=13 channel=slack")
            assert daemon.stop() == 0

    assert "13" in str(message.payload)
    assert len(slack.messages) == 1


def test_a_wrong_configuration_is_told_and_changes_nothing(tmp_path: Path) -> None:
    config = configure(tmp_path, spool={"scan_s": 0.2})
    good = config.read_text()
    with Daemon(config) as daemon:
        address = daemon.wait_for(r"event=pages url=(\S+)")[1]
        for wrong, said in (
            ("[spool", "is not TOML"),
            (good + "[slack]\nwebhook_file = '/absent'\n", "webhook_file /absent"),
        ):
            config.write_text(wrong)
            daemon.process.send_signal(signal.SIGHUP)
            daemon.wait_for(f"event=reload-refused reason=.*{said}")
        put_job(tmp_path / "spool", "12")
        daemon.wait_for("event=delivered job=12 channel=report")
        told = requests.get(f"{address}/metrics", timeout=10).text
        assert daemon.stop() == 0

    assert 'firstfault_reloads_total{result="refused"} 2.0' in told
    assert "event=reloaded" not in daemon.said()


@pytest.mark.slow
def test_a_store_that_is_away_at_a_reload_leaves_the_daemon_as_it_was(
    tmp_path: Path, postgresql: PostgreSQL, postgresql_url: str
) -> None:
    config = configure(tmp_path, store={"url": postgresql_url}, spool={"scan_s": 0.2})
    with Daemon(config) as daemon:
        daemon.wait_for("event=started")
        postgresql.stop()
        try:
            config.write_text(config.read_text() + "[log]\nreport = true\n")
            daemon.process.send_signal(signal.SIGHUP)
            daemon.wait_for("event=reload-refused reason=.the store cannot be used")
        finally:
            postgresql.start()
        put_job(tmp_path / "spool", "12")
        daemon.wait_for("event=delivered job=12 channel=report", 90)
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_for("event=reloaded changed=log.report")
        assert daemon.stop() == 0


def test_many_signals_at_once_are_survived(tmp_path: Path) -> None:
    with Daemon(configure(tmp_path)) as daemon:
        daemon.wait_for("event=started")
        for _ in range(200):
            daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_for("event=reloaded")

        assert daemon.stop() == 0

    assert "crashed" not in daemon.said()


def test_keys_that_need_a_restart_keep_their_value() -> None:
    running = Config()
    wanted = parse(
        '[spool]\ndir = "/new"\nscan_s = 9.0\n[store]\nurl = "sqlite:////x"\n[web]\nport = 1\n', "f"
    )

    new = reloaded(running, wanted)

    assert new.need_restart == ("spool.dir", "store.url", "web.port")
    assert new.changed == ("spool.scan_s",)
    spool = msgspec.structs.replace(running.spool, scan_s=9.0)
    assert new.config == msgspec.structs.replace(running, spool=spool)


def test_the_page_names_the_keys_that_need_a_restart() -> None:
    text = re.search(r"^These keys count after a restart only.*", DOCUMENTED.read_text(), re.M)
    assert text is not None
    listed = text[0].partition(":")[2].partition(". All")[0]
    named = re.findall(r"`([a-z_]+(?:\.[a-z_*]+)?)`", listed)
    covered = [key for key in keys() if key in named or f"{key.partition('.')[0]}.*" in named]

    assert covered == [key for key in keys() if needs_restart(key)]
