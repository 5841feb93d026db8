"""A site's own signatures count beside the package's, or are refused with file and field."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from firstfault.app.checks import points
from firstfault.cli_explain import explain
from firstfault.config import Config, Diagnosis
from firstfault.intake.site import install
from firstfault.signatures import SignatureError, known_anchors, meaning, use_site

OWN = """
[[signature]]
id = "site.shard"
target = "line"
means = "storage.missing-file"
pattern = '^tokenloader: shard \\d+ is not here'
samples = ['tokenloader: shard 17 is not here']
reference = 'tokenloader 3'
wrong_if = 'it was read elsewhere'
"""


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    yield
    use_site({})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own.toml").write_text(OWN)
    (tmp_path / "README").write_text("not a signature")
    return tmp_path


def test_a_sites_signature_counts_and_its_anchor_is_searched_for(folder: Path) -> None:
    assert meaning("line", "tokenloader: shard 3 is not here") is None

    assert install(folder) == 1
    found = meaning("line", "tokenloader: shard 3 is not here")

    assert found is not None
    assert found.id == "site.shard"
    assert "tokenloader: shard " in known_anchors()["signatures"]


def test_reading_the_folder_anew_takes_what_it_holds_now(folder: Path) -> None:
    install(folder)
    (folder / "own.toml").unlink()

    assert install(folder) == 0
    assert meaning("line", "tokenloader: shard 3 is not here") is None


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("site.shard", "shard", "id: a site's own begins with 'site.'"),
        ("storage.missing-file", "storage.nowhere", "means: 'storage.nowhere'"),
        ("reference =", "origin =", "origin"),
        ("'^tokenloader: ", "'(?:x+)*tokenloader: ", "pattern: "),
        ("['tokenloader: shard 17 is not here']", "[]", "samples: "),
    ],
)
def test_what_is_not_sound_is_refused_with_its_file(
    folder: Path, old: str, new: str, says: str
) -> None:
    (folder / "own.toml").write_text(OWN.replace(old, new))

    with pytest.raises(SignatureError) as refused:
        install(folder)

    assert str(folder / "own.toml") in str(refused.value)
    assert says in str(refused.value)
    assert meaning("line", "tokenloader: shard 3 is not here") is None


WIDE = OWN.replace("'^tokenloader: shard \\d+ is not here'", "'double free'").replace(
    "['tokenloader: shard 17 is not here']", "['double free of a shard']"
)


def test_an_overlap_with_the_packages_own_must_be_declared(folder: Path) -> None:
    (folder / "own.toml").write_text(WIDE)

    with pytest.raises(SignatureError, match="neither is declared the narrower"):
        install(folder)


def test_a_declared_narrower_one_takes_the_packages_place(folder: Path) -> None:
    (folder / "own.toml").write_text(WIDE + 'narrower_than = ["line.native-assert"]\n')
    install(folder)

    found = meaning("line", "double free or corruption (!prev)")

    assert found is not None
    assert found.id == "site.shard"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SignatureError, match="nowhere: No such file"):
        install(tmp_path / "nowhere")


def test_explain_uses_them_and_ends_with_2_where_they_are_not_sound(
    folder: Path, tmp_path: Path
) -> None:
    log = tmp_path / "slurm-7.out"
    log.write_text("step 1\n")

    fine = CliRunner().invoke(explain, ["--signatures", str(folder), str(log)])
    (folder / "own.toml").write_text(OWN.replace("site.shard", "shard"))
    refused = CliRunner().invoke(explain, ["--signatures", str(folder), str(log)])

    assert fine.exit_code in (3, 4)
    assert refused.exit_code == 2
    assert "own.toml" in refused.stderr


def test_check_tells_whether_they_are_sound(folder: Path, tmp_path: Path) -> None:
    config = Config(allow_root=True, diagnosis=Diagnosis(str(folder)))

    (fine,) = [point for point in points(config) if point.name == "signatures"]
    (folder / "own.toml").write_text(OWN.replace("site.shard", "shard"))
    (wrong,) = [point for point in points(config) if point.name == "signatures"]

    assert (fine.fine, fine.said) == (True, f"1 of the site's own in {folder} are sound")
    assert wrong.fine is False
    assert "own.toml: signature 'shard': id" in wrong.said
