"""Putting the collector on a node, renewing it while it runs, and taking it off."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.epilog.conftest import ROOT
from tests.epilog.node import Node, set_time

LIB = "usr/lib/firstfault"


class Image:
    """A node's file system below a folder, and the sources that are installed into it."""

    def __init__(self, folder: Path, pyz: Path) -> None:
        self.root = folder / "image"
        self.sources = folder / "sources"
        self.pyz = pyz
        shutil.copytree(
            ROOT / "epilog", self.sources / "epilog", ignore=shutil.ignore_patterns("__pycache__")
        )
        shutil.copytree(ROOT / "etc", self.sources / "etc")
        self.lib = self.root / LIB
        self.script = self.lib / "firstfault-epilog"

    def install(self, *arguments: str) -> str:
        """What install-node prints."""
        return subprocess.run(
            [self.sources / "epilog/install-node", "--root", self.root, *arguments],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout

    def put(self) -> None:
        """Installs the archive that the tests share: building one takes longer."""
        self.install("--pyz", str(self.pyz))

    def change(self, words: str) -> None:
        """Makes another version of the sources."""
        with (self.sources / "epilog/firstfault-epilog").open("a") as file:
            file.write(f"# {words}\n")

    def versions(self) -> set[str]:
        return {path.name for path in (self.lib / "versions").iterdir()}

    def files(self) -> set[str]:
        found = [path for path in self.root.rglob("*") if path.is_symlink() or path.is_file()]
        return {str(path.relative_to(self.root)) for path in found}


@pytest.fixture
def image(node: Node, pyz: Path) -> Image:
    return Image(node.folder, pyz)


def end_job(node: Node, script: Path) -> int:
    variables = node.environment() | {"FIRSTFAULT_CONF": str(node.conf)}
    return subprocess.run([script], env=variables, stdin=subprocess.DEVNULL, timeout=30).returncode


def test_it_builds_what_it_installs_and_every_file_is_documented(image: Image) -> None:
    image.install()

    documented = (ROOT / "docs/collector.md").read_text()
    (version,) = image.versions()
    for name in image.files():
        shown = f"/{name}".replace(version, "VERSION")
        assert f"`{shown}`" in documented, shown
    assert (image.lib / "firstfault-epilog.pyz").read_bytes().startswith(b"#!/usr/bin/python3")


def test_the_installed_script_and_archive_work_through_their_links(
    node: Node, image: Image
) -> None:
    image.put()
    node.configure(
        FIRSTFAULT_START="detach", FIRSTFAULT_PYZ=str(image.lib / "firstfault-epilog.pyz")
    )
    link = node.folder / "epilog.d" / "zz-firstfault"
    link.parent.mkdir()
    link.symlink_to(image.script)

    status = end_job(node, link)

    assert status == 0
    assert len(node.wait_for_records(1)) == 1


def test_installing_the_same_again_changes_nothing(image: Image) -> None:
    image.put()
    before = image.files()
    inode = image.script.stat().st_ino

    image.put()

    assert image.files() == before
    assert image.script.stat().st_ino == inode


def test_the_version_before_stays_and_older_ones_go(image: Image) -> None:
    seen = []
    for number in range(4):
        image.change(f"version {number}")
        image.put()
        seen.append((image.lib / "current").resolve().name)
        if number < 2:
            set_time(image.lib / "versions" / seen[-1], time.time() - 3700)

    assert len(set(seen)) == 4
    assert image.versions() == set(seen[-2:])
    assert image.script.read_text().endswith("# version 3\n")


def test_the_administrators_configuration_stays(image: Image) -> None:
    image.put()
    conf = image.root / "etc/firstfault/epilog.conf"
    conf.write_text("FIRSTFAULT_START=detach\n")

    image.put()
    image.install("--uninstall")

    assert conf.read_text() == "FIRSTFAULT_START=detach\n"


def test_it_takes_over_from_files_that_were_copied_by_hand(image: Image) -> None:
    image.lib.mkdir(parents=True)
    image.script.write_text("#!/bin/sh\nexit 0\n")

    image.put()

    assert image.script.is_symlink()


def test_no_epilog_fails_and_no_record_is_lost_while_versions_change(
    node: Node, image: Image
) -> None:
    image.put()
    node.configure(
        FIRSTFAULT_START="detach", FIRSTFAULT_PYZ=str(image.lib / "firstfault-epilog.pyz")
    )
    changed = threading.Event()

    def renew() -> None:
        for number in range(8):
            image.change(f"version {number}")
            image.put()
        changed.set()

    renewing = threading.Thread(target=renew)
    renewing.start()
    statuses = []
    while not changed.is_set() and len(statuses) < 300:
        statuses.append(end_job(node, image.script))
    renewing.join()

    assert set(statuses) == {0}
    assert len(node.wait_for_records(len(statuses), 60)) == len(statuses)
    assert not (node.queue / "failures").exists()


def test_what_slurm_may_still_run_does_nothing_after_it_was_uninstalled(
    node: Node, image: Image
) -> None:
    image.put()
    link = node.folder / "zz-firstfault"
    link.symlink_to(image.script)

    told = image.install("--uninstall")

    assert "slurm.conf" in told
    assert end_job(node, link) == 0
    assert not node.queue.exists()
    assert os.access(image.lib / "firstfault-task-prolog", os.R_OK | os.X_OK)
    for script in (image.script, image.lib / "firstfault-task-prolog"):
        read_in = subprocess.run(
            ["/bin/sh", "-c", f". {script}; echo after"], capture_output=True, text=True
        )
        assert (read_in.stdout, read_in.stderr) == ("after\n", "")
    assert image.files() == {
        f"{LIB}/firstfault-epilog",
        f"{LIB}/firstfault-task-prolog",
        "etc/firstfault/epilog.conf",
    }


def test_purging_leaves_no_file(image: Image) -> None:
    image.put()
    image.install("--uninstall")

    image.install("--uninstall", "--purge")

    assert image.files() == set()


def test_it_can_be_installed_again_after_it_was_uninstalled(node: Node, image: Image) -> None:
    image.put()
    image.install("--uninstall")

    image.put()

    assert end_job(node, image.script) == 0
    assert len(node.waiting()) == 1


@pytest.mark.parametrize("arguments", [["--bogus"], ["install"], ["--help"]])
def test_bad_usage_installs_nothing_and_explains(image: Image, arguments: list[str]) -> None:
    done = subprocess.run(
        [image.sources / "epilog/install-node", *arguments, "--root", image.root],
        capture_output=True,
        text=True,
    )

    assert done.returncode == 2
    assert "--uninstall" in done.stderr
    assert not image.root.exists()


def test_the_shell_checker_finds_nothing_in_the_installer() -> None:
    checker = shutil.which("shellcheck")
    if checker is None:
        pytest.skip("shellcheck is not installed")

    found = subprocess.run(
        [checker, "--shell=dash", ROOT / "epilog/install-node"], capture_output=True, text=True
    )

    assert found.stdout == ""
