"""KillWait: from scontrol, a program of its own stands in for it; and what counts without it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from firstfault.app.settling import Settling
from firstfault.config import Config, Judge, Slurm
from firstfault.slurm import settings
from firstfault.slurm.facts import FactsError

# As 22.05.8 prints it, cut.
CONFIG = """Configuration data as of 2026-11-30T15:56:00
JobRequeue              = 1
KillOnBadExit           = 0
KillWait                = %s sec
LaunchParameters        = (null)
"""


def scontrol(folder: Path, text: str) -> Path:
    path = folder / "scontrol"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def printing(folder: Path, kill_wait_s: int) -> Path:
    return scontrol(folder, f"cat <<'END'\n{CONFIG % kill_wait_s}END")


def test_kill_wait_is_read(tmp_path: Path) -> None:
    assert settings.kill_wait_s(printing(tmp_path, 60), 10) == 60


def test_of_several_clusters_the_longest_counts(tmp_path: Path) -> None:
    told = 'case $1 in --clusters=a) s=30;; --clusters=b) s=90;; esac; echo "KillWait = $s sec"'

    assert settings.kill_wait_s(scontrol(tmp_path, told), 10, ("a", "b")) == 90


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo slurm_load_ctl_conf error: Unable to contact >&2; exit 1", "Unable to contact"),
        ("exec sleep 60", "no end after 0.2 s"),
        ("echo KillWait = soon", "does not name KillWait"),
    ],
)
def test_what_scontrol_does_not_tell_is_an_error_with_its_words(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(FactsError, match=said):
        settings.kill_wait_s(scontrol(tmp_path, text), 0.2 if "sleep" in text else 10)


def test_scontrol_is_looked_for_beside_a_configured_sacct(tmp_path: Path) -> None:
    assert settings.find(str(tmp_path / "sacct")) is None
    path = printing(tmp_path, 30)

    assert settings.find(str(tmp_path / "sacct")) == path


def test_the_judge_waits_as_slurm_says_and_goes_on_so_when_slurm_is_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = Config(slurm=Slurm(source="sacct", sacct=str(tmp_path / "sacct")))
    settling = Settling(config)
    assert settling.is_read
    assert settling.timing().kill_wait_s == 30

    settling.once()
    assert "kill-wait-not-read" in caplog.text
    printing(tmp_path, 90)
    settling.once()
    (tmp_path / "scontrol").unlink()
    settling.once()

    assert settling.timing().kill_wait_s == 90
    assert settling.timing().settle_s is None


def test_what_is_configured_counts_and_nobody_is_asked() -> None:
    fixed = Settling(Config(judge=Judge(settle_s=60.0)))
    alone = Settling(Config(slurm=msgspec.structs.replace(Slurm(), source="none")))

    assert not fixed.is_read
    assert fixed.timing().settle_s == 60
    assert not alone.is_read
    assert alone.timing().first_ask_s == 0
