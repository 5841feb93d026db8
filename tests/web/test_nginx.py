"""The pages behind a real nginx, as etc/examples/nginx.conf sets it up, with a login before them.

What stands for oauth2-proxy answers who is logged in by the session that a cookie names.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests

from firstfault.app.entrance import entrance_of
from firstfault.config import parse
from firstfault.web import server, signed, tokens
from firstfault.web.application import Sources, application, places
from tests.intake.munged import Munged, munged
from tests.web import boards
from tests.web.api_served import Quick

__all__ = ["munged"]

EXAMPLE = Path(__file__).parents[2] / "etc" / "examples" / "nginx.conf"
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin")
HOST = "faults.example.org"
SECRET = "s" * 64
JOB = next(end for end in boards.ENDS if end.facts.user == "alice")


def free_port() -> int:
    with closing(socket.socket()) as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Login(BaseHTTPRequestHandler):
    """202 with the user's name for a session, 401 without one."""

    def do_GET(self) -> None:
        session = self.headers.get("cookie", "").partition("session=")[2]
        self.send_response(202 if session else 401)
        if session:
            self.send_header("X-Auth-Request-Preferred-Username", session)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        pass


@contextmanager
def logging_in() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Login) as login:
        thread = threading.Thread(target=login.serve_forever, daemon=True)
        thread.start()
        yield login.server_port
        login.shutdown()
        thread.join(10)


def example(folder: Path, *, port: int, pages: int, login: int) -> str:
    """The example with a test's own addresses and files."""
    text = EXAMPLE.read_text("utf-8")
    changes = {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "127.0.0.1:8765": f"127.0.0.1:{pages}",
        "127.0.0.1:4180": f"127.0.0.1:{login}",
        "/etc/nginx/": f"{folder}/",
    }
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    temporary = "".join(
        f"{name}_temp_path {folder}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;\n" if os.geteuid() == 0 else ""
    return (
        f"{user}pid {folder}/pid;\nerror_log {folder}/error.log;\nworker_processes 1;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{temporary}{text}\n}}\n"
    )


@contextmanager
def nginx(folder: Path, pages: int, login: int) -> Iterator[str]:
    """An nginx that serves while the block runs; its address."""
    assert NGINX is not None
    port = free_port()
    name = folder / HOST
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST},IP:127.0.0.1",
         "-keyout", f"{name}.key", "-out", f"{name}.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    (folder / "firstfault-secret.conf").write_text(
        f'proxy_set_header X-Firstfault-Proxy "{SECRET}";'
    )
    (folder / "nginx.conf").write_text(example(folder, port=port, pages=pages, login=login))
    with (folder / "out").open("wb") as out:
        process = subprocess.Popen(
            [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-g", "daemon off;"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        end = time.monotonic() + 20
        while True:
            with closing(socket.socket()) as sock:
                if sock.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None and time.monotonic() < end, (folder / "out").read_text()
            time.sleep(0.05)
        yield f"https://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


class Site:
    """The pages as readers reach them (``url``, by the proxy) and as the proxy does (``direct``)."""

    def __init__(self, url: str, direct: str, authority: Path, token: str) -> None:
        self.url = url
        self.direct = direct
        self.authority = authority
        self.token = token
        self.host = f"{HOST}:{url.rpartition(':')[2]}"

    def ask(
        self, path: str, user: str | None = None, method: str = "GET", **headers: str
    ) -> requests.Response:
        named = {"Host": self.host, **{key.replace("_", "-"): headers[key] for key in headers}}
        return requests.request(
            method,
            self.url + path,
            headers=named,
            cookies={"session": user} if user else {},
            verify=str(self.authority),
            allow_redirects=False,
            timeout=20,
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, munged: Munged) -> Iterator[Site]:
    if NGINX is None:
        if os.environ.get("FIRSTFAULT_REQUIRE_CLUSTER") == "1":
            pytest.fail("FIRSTFAULT_REQUIRE_CLUSTER=1, and nginx is not installed", pytrace=False)
        pytest.skip("nginx is not installed")
    folder = tmp_path_factory.mktemp("nginx")
    token, line = tokens.new("ci", "user=alice")
    (folder / "tokens").write_text(line)
    (folder / "proxy-secret").write_text(SECRET)
    config = parse(
        f'[web]\npublic_url = "https://{HOST}/"\nproxy_user_header = "X-Remote-User"\n'
        f'proxy_secret_file = "{folder}/proxy-secret"\ntokens_file = "{folder}/tokens"\n'
        f'munge = true\nadmins = ["ops"]\n[intake]\nmunge_socket = "{munged.socket}"\n',
        "f",
    )
    entrance = entrance_of(config)
    shared = {"good": "<p>The report</p>"}.get
    sources = Sources(boards.board(folder), lambda: True, lambda: b"", shared, Quick())
    app = application(places(sources), lambda: entrance)
    sock = server.listener("127.0.0.1", 0)
    pages = sock.getsockname()[1]
    with ExitStack() as stack:
        login = stack.enter_context(logging_in())
        stack.enter_context(server.serving(app, sock))
        url = stack.enter_context(nginx(folder, pages, login))
        yield Site(url, f"http://127.0.0.1:{pages}", folder / f"{HOST}.pem", token)


REPORT = f"/jobs/{JOB.facts.cluster}/{JOB.facts.id}"


def test_who_is_not_logged_in_is_sent_to_the_login(site: Site) -> None:
    answer = site.ask(REPORT)

    assert answer.status_code == 302
    assert answer.headers["location"].endswith(f"/oauth2/sign_in?rd=https://{site.host}{REPORT}")


@pytest.mark.parametrize(
    ("user", "status"), [("alice", 200), ("mallory", 404), ("ops", 200), ("ops,alice", 401)]
)
def test_the_login_tells_who_reads(site: Site, user: str, status: int) -> None:
    # A proxy that lets somebody in whose name is none asks for the login anew.
    assert site.ask(REPORT, user).status_code in (status, 302 if status == 401 else status)


def test_what_a_browser_sends_as_the_proxys_own_never_arrives(site: Site) -> None:
    for headers in (
        {"X_Remote_User": "ops"},
        {"x_remote_user": "ops", "X_Firstfault_Proxy": SECRET},
    ):
        assert site.ask("/nodes", "mallory", **headers).status_code == 404
        assert site.ask("/nodes", None, **headers).status_code == 302
        assert site.ask("/shared/../nodes", None, **headers).status_code == 302
        assert site.ask("/static/%2e%2e/nodes", None, **headers).status_code in (302, 404)
        machine = site.ask("/nodes", None, Authorization="Bearer firstfault_x", **headers)
        assert machine.status_code in (302, 401)


def test_a_user_of_the_proxys_host_cannot_take_its_place(site: Site) -> None:
    for headers in ({"X-Remote-User": "ops"}, {"X-Remote-User": "ops", "X-Firstfault-Proxy": "x"}):
        answer = requests.get(f"{site.direct}/nodes", headers={**headers, "Host": HOST}, timeout=20)

        assert answer.status_code == 401


def test_a_link_needs_no_login_and_gives_none(site: Site) -> None:
    assert site.ask("/shared/good").text == "<p>The report</p>"
    assert site.ask("/shared/bad").status_code == 404
    assert site.ask("/static/board.css").status_code == 200
    assert site.ask(REPORT).status_code == 302


def test_a_machine_needs_no_login(site: Site) -> None:
    mine = site.ask(f"{REPORT}.json", Authorization=f"Bearer {site.token}")

    assert mine.json()["job"]["id"] == JOB.facts.id
    assert site.ask("/nodes", Authorization=f"Bearer {site.token}").status_code == 404


def test_a_command_signs_its_request_through_the_proxy(site: Site, munged: Munged) -> None:
    path = "/api/v1/nodes?hours=48"
    made = signed.statement("GET", path, site.host, b"", time.time())
    authorization = f"Firstfault-Munge {munged.credential(made)}"

    assert site.ask(path, Authorization=authorization).status_code == 200
    # Seen on its way, and sent again.
    assert site.ask(path, Authorization=authorization).status_code in (302, 401)


def test_a_form_of_the_pages_is_taken_and_one_of_another_site_is_not(site: Site) -> None:
    page = site.ask("/incidents", "ops").text
    token = page.partition('name="form_token" value="')[2].partition('"')[0]

    def sent(origin: str) -> int:
        answer = requests.post(
            f"{site.url}/incidents/1/acknowledge",
            data={"form_token": token},
            headers={"Host": site.host, "Origin": origin},
            cookies={"session": "ops"},
            verify=str(site.authority),
            allow_redirects=False,
            timeout=20,
        )
        return answer.status_code

    assert sent("https://evil.example") == 403
    assert sent(f"https://{site.host}") == 303
    assert sent(f"https://{HOST}") == 303


def test_new_failures_come_through_at_once(site: Site) -> None:
    with requests.get(
        f"{site.url}/live",
        headers={"Host": site.host},
        cookies={"session": "ops"},
        verify=str(site.authority),
        stream=True,
        timeout=20,
    ) as answer:
        lines = answer.iter_lines()

        assert answer.headers["content-type"].startswith("text/event-stream")
        assert any(line.startswith(b"data:") for line in lines)
