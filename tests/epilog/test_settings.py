"""epilog.conf: read alike by the Epilog's shell and by Python."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from firstfault_epilog import settings
from tests.epilog.conftest import ROOT
from tests.epilog.node import Node

SHIPPED = ROOT / "etc" / "epilog.conf"
DOCS = ROOT / "docs" / "collector.md"


def test_the_shipped_file_holds_every_key_at_its_default() -> None:
    found, faults = settings.read(str(SHIPPED))
    values, _ = settings.parse(SHIPPED.read_text())

    assert faults == []
    assert found == settings.Settings()
    assert set(values) == set(settings.KEYS)


def test_every_key_is_documented_and_no_other() -> None:
    documented = set(re.findall(r"^\| `(FIRSTFAULT_[A-Z_]+)`", DOCS.read_text(), re.MULTILINE))

    assert documented == set(settings.KEYS)


def test_a_missing_file_is_all_defaults(tmp_path: Path) -> None:
    assert settings.read(str(tmp_path / "absent")) == (settings.Settings(), [])


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("FIRSTFAULT_SPOL=/x", "not a key that is known"),
        ("export FIRSTFAULT_SPOOL=/x", "not a key that is known"),
        ("FIRSTFAULT_SPOOL=relative", "not an absolute path"),
        ('FIRSTFAULT_SPOOL="/x"', "quotes are part of the value"),
        ("FIRSTFAULT_SPOOL=/x ", "blanks"),
        ("FIRSTFAULT_START=cron", "not one of"),
        ("FIRSTFAULT_READ_DEADLINE_S=soon", "not a number"),
        ("FIRSTFAULT_ALLOW_ROOT_JOBS=yes", "not 0 or 1"),
        ("FIRSTFAULT_RANK_LOGS=logs/*", "does not start with /"),
        ("# ---\nFIRSTFAULT_QUEUE=/x", "must stand above"),
        ("# ---\nFIRSTFAULT_RANK_LOG_DIR=/x", "must stand above"),
        ("FIRSTFAULT_RANK_LOG_DIR=/a b", "letters, digits"),
        ("FIRSTFAULT_RANK_LOG_DIR=x", "absolute path"),
        ("FIRSTFAULT_RANK_LOG_TEE=yes", "not 0 or 1"),
        ("FIRSTFAULT_RANK_LOG_FREE_MB=1G", "not a number"),
        ("FIRSTFAULT_DAEMON=daemon:8766", "is not https://HOST:PORT"),
        ("FIRSTFAULT_DAEMON=http://daemon:8766", "https is needed"),
        ("FIRSTFAULT_SIGN=none", "not one of auto, munge, key"),
        ("FIRSTFAULT_KEEP_MB=0", "would keep nothing"),
        ("FIRSTFAULT_KEEP_MB=-1", "would keep nothing"),
        ("FIRSTFAULT_KEEP_MB=nan", "would keep nothing"),
        ("FIRSTFAULT_KEY_FILE=key", "not an absolute path"),
    ],
)
def test_a_wrong_line_is_said_and_does_not_stop_the_collector(
    tmp_path: Path, line: str, fault: str
) -> None:
    path = tmp_path / "epilog.conf"
    path.write_text(line + "\n")

    _, faults = settings.read(str(path))

    assert len(faults) >= 1
    assert fault in faults[0] and str(path) in faults[0]


@pytest.mark.parametrize("value", ["", "relative/queue"])
def test_a_queue_that_is_no_absolute_path_is_the_default_for_both(node: Node, value: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: a /run of its own")
    node.configure(FIRSTFAULT_QUEUE=value)
    place = node.folder / "empty"
    place.mkdir()
    script = 'mount -t tmpfs none /run && "$1"; ls /run/firstfault/queue/ready'

    done = subprocess.run(
        ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", script, "sh", node.stub],
        env=node.environment() | {"FIRSTFAULT_CONF": str(node.conf), "PATH": "/usr/bin:/bin"},
        cwd=place,
        capture_output=True,
        text=True,
    )

    assert done.stdout.startswith("12-n3-")
    assert list(place.iterdir()) == []
    assert not Path("/ready").exists()
    assert settings.read(str(node.conf))[0].queue == settings.Settings().queue


@pytest.mark.parametrize(
    "value", ["/{0}/a b", "/{0}/$HOME", "/{0}/`id`", "/{0}/a'b", "/{0}/a=b\\n"]
)
def test_the_shell_and_python_take_the_same_value(node: Node, value: str) -> None:
    queue = value.format(str(node.folder).strip("/"))
    node.configure(FIRSTFAULT_QUEUE=queue)

    node.end_job()
    found, _ = settings.read(str(node.conf))

    assert found.queue == queue
    assert len(list((Path(queue) / "ready").iterdir())) == 1
