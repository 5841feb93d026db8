"""Who may read a running daemon's pages, and a configuration that changes under it."""

from __future__ import annotations

import signal
from pathlib import Path

import requests

from firstfault.web import tokens
from tests.app.processes import Daemon, configure


def test_a_reload_closes_the_pages_and_a_wrong_one_does_not_open_them(tmp_path: Path) -> None:
    token, line = tokens.new("wall", "administrator")
    known = tmp_path / "tokens"
    known.write_text(line)
    config = configure(tmp_path)
    with Daemon(config) as daemon:
        url = daemon.wait_for(r"event=pages url=(\S+)")[1]

        def status(**headers: str) -> int:
            return requests.get(f"{url}/nodes", headers=headers, timeout=20).status_code

        def reload(said: str) -> None:
            daemon.begun = daemon.log.stat().st_size
            daemon.process.send_signal(signal.SIGHUP)
            daemon.wait_for(said)

        assert status() == 200
        configure(tmp_path, web={"port": 0, "tokens_file": str(known)})
        reload("event=reloaded")
        assert status() == 401
        assert status(authorization=f"Bearer {token}") == 200
        # A proxy without its secret: nothing changes, and nothing opens.
        configure(tmp_path, web={"port": 0, "proxy_user_header": "X-Remote-User"})
        reload("event=reload-refused .*web.proxy_secret_file")
        assert status() == 401
        assert status(**{"x-remote-user": "root"}) == 401
        assert status(authorization=f"Bearer {token}") == 200
        # A token that is taken out is good no more, without a reload.
        known.write_text("")
        assert status(authorization=f"Bearer {token}") == 401
        assert daemon.stop() == 0
        assert token not in daemon.log.read_text()
