"""The OpenAPI document: valid, whole, and what the API does (schemathesis tries it)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import openapi_spec_validator
import pytest

from firstfault.web import api
from firstfault.web.api.openapi import document
from firstfault.web.api.operations import Operation
from tests.web import boards, kept
from tests.web.api_served import Quick, Served, open_api, stored

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "api.md"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("store")
    with (
        kept.lasting(f"sqlite:///{folder}/ff.db") as keeper,
        open_api(boards.board(folder), Quick(), keeper) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def offered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Operation]]:
    """All operations that there are."""
    url = f"sqlite:///{tmp_path_factory.mktemp('kept')}/ff.db"
    with kept.lasting(url) as keeper:
        yield api.operations(boards.Remembered([]), Quick(), lambda: boards.NOW, keeper)


def test_the_document_is_served_and_valid(served: Served) -> None:
    answer = served.get("/openapi.json")

    assert answer.headers["content-type"] == "application/json"
    openapi_spec_validator.validate(answer.json())


def test_every_operation_is_in_the_document_with_a_name_of_its_own(
    offered: list[Operation],
) -> None:
    paths = document(offered, "0")["paths"]

    told = {(path, method) for path, item in paths.items() for method in item}
    assert told == {(f"/api/v1{each.path}", each.method.lower()) for each in offered}
    assert len({each.id for each in offered}) == len(offered)


def test_every_placeholder_of_a_path_is_a_parameter(offered: list[Operation]) -> None:
    for each in offered:
        named = {one.name for one in each.parameters if one.place == "path"}

        assert set(re.findall(r"{(\w+)}", each.path)) == named, each.path


def test_docstrings_are_told_without_their_line_ends(offered: list[Operation]) -> None:
    text = json.dumps(document(offered, "0")["components"])

    assert "``" not in text
    assert r"\n" not in text


def tried(
    served: Served, folder: Path, examples: int, *more: str
) -> subprocess.CompletedProcess[str]:
    """Schemathesis with its default checks over the whole API, as its user runs it."""
    # A machine's own settings are not this test's.
    environment = {name: value for name, value in os.environ.items() if name[:4] != "SCHE"}
    return subprocess.run(
        [
            str(Path(sys.executable).with_name("st")),
            "run",
            f"{served.url}/api/v1/openapi.json",
            f"--max-examples={examples}",
            "--continue-on-failure",
            "--no-color",
            *more,
        ],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_what_schemathesis_thinks_of_is_answered_as_documented(
    store_url: str, tmp_path: Path
) -> None:
    with (
        stored(store_url) as board,
        kept.keeping(store_url) as (keeper, _),
        open_api(board, Quick(), keeper) as served,
    ):
        done = tried(served, tmp_path, 5, "--seed=7", "--phases=examples,fuzzing,stateful")

    assert done.returncode == 0, done.stdout[-8000:] + done.stderr


@pytest.mark.soak
def test_what_schemathesis_thinks_of_in_minutes_is_answered_as_documented(
    store_url: str, tmp_path: Path
) -> None:
    with (
        stored(store_url) as board,
        kept.keeping(store_url) as (keeper, _),
        open_api(board, Quick(), keeper) as served,
    ):
        done = tried(served, tmp_path, 200)

    assert done.returncode == 0, done.stdout[-8000:] + done.stderr


@pytest.mark.slow
def test_what_is_there_is_answered_and_changed_as_documented(
    store_url: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Paths that schemathesis does not guess."""
    with stored(store_url) as board, open_api(board, Quick()) as served:
        named = "".join(
            f'"path.{name}" = {json.dumps(value)}\n' for name, value in there(served).items()
        )
        (tmp_path / "schemathesis.toml").write_text(f"[parameters]\n{named}")
        many = 200 if pytestconfig.getoption("--soak") else 5
        what = ("--include-path-regex={", "--phases=fuzzing", "--report=har", "--report-dir=.")
        done = tried(served, tmp_path, many, "--seed=7", *what)

    assert done.returncode == 0, done.stdout[-8000:] + done.stderr
    (report,) = tmp_path.glob("har-*.json")
    entries = json.loads(report.read_text("utf-8"))["log"]["entries"]
    answered = {each["request"]["url"] for each in entries if each["response"]["status"] == 200}
    for place in ("/evidence/", "/verdict", "/note", "/close", "/retry", "/nodes/", "/jobs/"):
        assert any(place in url for url in answered), f"{place} never succeeded"


def there(served: Served) -> dict[str, str | int]:
    """What the store has, by the placeholder in the paths."""
    job = served.get("/failures?cluster=main&limit=1").json()["failures"][0]["job"]
    dead = served.get("/deliveries?state=dead").json()["deliveries"]
    return {
        "cluster": "main",
        "job": job,
        "incarnation": 1,
        "node": served.get(f"/failures/main/{job}").json()["evidence"][0]["node"],
        "fingerprint": served.get("/fingerprints").json()["fingerprints"][0]["fingerprint"],
        "key": served.get("/incidents?state=open").json()["incidents"][0]["key"],
        "delivery": dead[0]["delivery_id"],
    }


def examples() -> list[str]:
    """The commands of docs/api.md."""
    blocks = re.findall(r"^```\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


@pytest.fixture(scope="module")
def known(served: Served) -> dict[str, str]:
    """What the examples name, and what is there instead."""
    job = served.get("/failures?cluster=main&limit=1").json()["failures"][0]["job"]
    node = served.get(f"/failures/main/{job}").json()["evidence"][0]["node"]
    standing = served.get("/nodes?hours=8784&cluster=main").json()["nodes"][0]["node"]
    fingerprint = served.get("/fingerprints").json()["fingerprints"][0]["fingerprint"]
    incident = served.get("/incidents?state=open").json()["incidents"][0]["key"]
    dead = served.get("/deliveries?state=dead").json()["deliveries"][0]["delivery_id"]
    return {
        "main/4242/1/evidence/n3": f"main/{job}/1/evidence/{node}",
        "main/4242": f"main/{job}",
        "nodes/main/n3": f"nodes/main/{standing}?hours=8784",
        "1:3f2a9c0d11aa": quote(fingerprint, safe=""),
        "incidents/1": f"incidents/{incident}",
        "d-4242-slack-1": quote(dead, safe=""),
        "0d6f4c1b9e7a4f52a8c3b1d2e5f60718": kept.ID,
        "http://127.0.0.1:8765": served.url,
    }


@pytest.mark.parametrize("command", examples())
def test_each_example_of_the_docs_is_answered(
    known: dict[str, str], tmp_path: Path, command: str
) -> None:
    for name in ("slurm-4242.out", "dmesg-n3.txt"):
        (tmp_path / name).write_text("a log\n")
    asked = command.partition(" -o ")[0]
    for written, there in known.items():
        asked = asked.replace(written, there)

    done = subprocess.run(
        ["/bin/sh", "-c", f"{asked} --include"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "FIRSTFAULT_TOKEN": "firstfault_x"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[1]) == (400 if "domian" in command else 200), done.stdout


def test_each_parameter_and_place_of_the_api_is_in_the_docs(offered: list[Operation]) -> None:
    text = PAGE.read_text("utf-8")

    for each in offered:
        said = re.sub(r"/{\w+}", "/[^/ ?']+", each.path)
        assert re.search(f"/api/v1{said}(?=[ ?'\n])", text), each.path
        for one in each.parameters:
            assert one.place == "path" or one.name == "page" or f"`{one.name}`" in text, one.name
