"""Reports that are kept, in the daemon as it runs: across restarts, behind links, and not at all."""

from __future__ import annotations

import signal
from pathlib import Path

import requests

from tests.app.processes import Daemon, configure
from tests.app.test_outlets import secret

LOG = (
    b"[rank1]: Traceback (most recent call last):\n"
    b'[rank1]:   File "/home/alice/train.py", line 7, in <module>\n'
    b"[rank1]: RuntimeError: lost\n"
)
PACKED = {"content-type": "application/octet-stream"}
PAGES = r"event=pages url=(\S+)"


def keep(url: str) -> requests.Response:
    return requests.post(
        f"{url}/api/v1/explain?keep=true&title=train", data=LOG, headers=PACKED, timeout=60
    )


def link_on(page: str) -> str:
    return page.partition('id="link" readonly value="')[2].partition('"')[0]


def test_a_report_outlives_the_daemon_and_its_link_ends_with_the_key_or_the_report(
    tmp_path: Path,
) -> None:
    web = {"public_url": "http://public.example", "secret_file": secret(tmp_path / "key", "k" * 64)}
    config = configure(tmp_path, web=web)
    with Daemon(config) as daemon:
        url = daemon.wait_for(PAGES)[1]
        kept = keep(url).json()["kept"]
        assert daemon.stop() == 0

    with Daemon(config) as daemon:
        url = daemon.wait_for(PAGES)[1]
        address = f"{url}/explained/{kept['id']}"
        page = requests.get(address, timeout=10).text
        shared = url + link_on(page).removeprefix("http://public.example")
        opened = requests.get(shared, timeout=10)
        listed = requests.get(f"{url}/api/v1/failures", timeout=10).json()
        secret(tmp_path / "key", "n" * 64)
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_for("event=reloaded")
        by_the_old_key = requests.get(shared, timeout=10)
        again = url + link_on(requests.get(address, timeout=10).text).removeprefix(
            "http://public.example"
        )
        by_the_new_key = requests.get(again, timeout=10)
        forgotten = requests.post(
            f"{url}/api/v1/explained/{kept['id']}/forget", json={}, timeout=10
        )
        gone = requests.get(again, timeout=10)

    assert "RuntimeError" in page and "train: the verdict on logs" in page
    assert opened.status_code == 200 and "RuntimeError" in opened.text
    assert opened.headers["referrer-policy"] == "no-referrer"
    assert listed["failures"] == []
    assert (by_the_old_key.status_code, by_the_new_key.status_code) == (404, 200)
    assert forgotten.json()["done"] is True
    assert gone.status_code == 404


def test_with_no_days_nothing_is_kept_and_what_was_goes(tmp_path: Path) -> None:
    with Daemon(configure(tmp_path)) as daemon:
        assert keep(daemon.wait_for(PAGES)[1]).json()["kept"] is not None

    with Daemon(configure(tmp_path, explain={"keep_days": 0})) as daemon:
        url = daemon.wait_for(PAGES)[1]
        daemon.wait_for("event=explained-removed count=1")

        assert keep(url).status_code == 400
        assert requests.get(f"{url}/api/v1/explained", timeout=10).status_code == 404
        assert 'name="keep"' not in requests.get(f"{url}/explain", timeout=10).text
