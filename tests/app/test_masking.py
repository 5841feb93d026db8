"""What a verdict is when it leaves the daemon: masked, and such that every store can hold it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from firstfault.app.board import StoredBoard
from firstfault.app.customs import patterns_of, template_faults, use_customs
from firstfault.config import Config, ConfigError, Mask, Templates
from firstfault.model import verdict as v
from firstfault.model.board import Failure, FailureFilter, Reader
from firstfault.report import html, masking
from firstfault.report import page as pages
from firstfault.store import listing
from tests.app.test_passes import Daemon, daemon  # noqa: F401 - a fixture
from tests.report import verdicts

SECRET = "hf" + "_" + "q7WzR2" * 6


@pytest.fixture(autouse=True)
def no_customs() -> Iterator[None]:
    yield
    masking.use_site(())
    pages.use_site(None)


def with_secret(secret: str) -> v.Verdict:
    return v.Verdict(
        job=v.Job(name=f"train {secret}"),
        cause=v.Cause("python.exception", f"ValueError: {secret}", "user", v.CONFIRMED),
        exception=v.ExceptionFacts("ValueError", secret),
        evidence=(v.Evidence("cause", "log", "n1", "out", 1, 0, f"ValueError: {secret}"),),
        notes=(f"also {secret}",),
    )


def listed(daemon: Daemon) -> Failure:  # noqa: F811
    page = StoredBoard(daemon.database).failures(Reader(administrator=True), FailureFilter())
    (row,) = page.failures
    return row


def test_no_channel_list_or_page_is_given_a_secret(daemon: Daemon) -> None:  # noqa: F811
    daemon.answer = lambda case: with_secret(SECRET)
    daemon.take("n1", "n2")

    (sent,) = daemon.slack.sent
    (stored,) = listing.current_verdicts(daemon.database, "12", any_cluster=True)
    row = listed(daemon)
    for verdict in (sent.current.verdict, stored.verdict):
        said = v.encode(verdict).decode()
        assert SECRET not in said and said.count("hf_****") == 5
    assert "*" in (row.title or "") and SECRET not in f"{row.title} {row.name}"


def test_a_pattern_that_is_added_later_holds_for_what_is_stored(daemon: Daemon) -> None:  # noqa: F811
    daemon.answer = lambda case: with_secret("project-1234")
    daemon.take("n1", "n2")
    masking.use_site([re.compile("project-[0-9]{4}")])

    (stored,) = listing.current_verdicts(daemon.database, "12", any_cluster=True)
    row = listed(daemon)
    assert b"project-1234" not in v.encode(stored.verdict)
    assert "project" not in f"{row.title} {row.name}"


def test_what_no_database_can_hold_is_spelled_out_and_delivered(daemon: Daemon) -> None:  # noqa: F811
    odd = msgspec.structs.replace(
        with_secret("a\x00b\ud83dc"), initiator=v.Initiator(rank=1, host="n\x001")
    )
    daemon.answer = lambda case: odd
    daemon.take("n1", "n2")

    (sent,) = daemon.slack.sent
    assert sent.current.verdict.cause.title == r"ValueError: a\0b\ud83dc"
    assert sent.current.verdict.initiator.host == r"n\01"


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(", "is no regular expression"),
        ("a*", "matches the empty text"),
        (r"(a+)+b", "repeat"),
        (r"x.*y.*z", "repeat"),
    ],
)
def test_a_pattern_that_is_not_sound_is_refused_with_its_key(pattern: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"mask.patterns: .*{said}"):
        use_customs(Config(mask=Mask(("fine[0-9]", pattern))))

    assert masking.masked_text("fine1") == "fine1"
    assert len(patterns_of(Config(mask=Mask(("fine[0-9]",))))) == 1


def test_a_folder_of_templates_counts_from_the_start(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("<body>ours: {{ said.headline }}</body>")
    (tmp_path / ".report.html.swp").write_bytes(b"\xff")
    config = Config(templates=Templates(str(tmp_path)))

    use_customs(config)

    assert html.render(verdicts.CGROUP_OOM).startswith("<body>ours: Rank 5 on n4 was killed")
    assert template_faults(config) == []
    (tmp_path / "raport.html").write_text("{% if %}")
    assert [fault.rpartition(": ")[0] for fault in template_faults(config)] != []


def test_a_folder_of_templates_that_is_not_there_is_told_with_its_key(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    with pytest.raises(ConfigError, match=r"templates\.dir: .*absent: No such file"):
        use_customs(Config(templates=Templates(str(absent))))

    (tmp_path / "report.html").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"report\.html is not UTF-8"):
        use_customs(Config(templates=Templates(str(tmp_path))))
