"""Makes folders of tests/cases of what runs left, with what is true of them.

    python -m tests.diagnosis.recording.write NAME...     (a name's beginning is enough)

runs the local scenarios anew and writes their cases.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.diagnosis.recording import local
from tests.diagnosis.recording.local import Scenario
from tests.diagnosis.recording.scenarios import SCENARIOS, healthy

AT_ONCE = 4
CASES = Path(__file__).resolve().parents[2] / "cases"
HEALTHY = CASES.parent / "healthy"


def truth(scenario: Scenario) -> str:
    """The text of the case's expected.toml."""
    lines = [f"cause = [{', '.join(quoted(each) for each in scenario.cause)}]"]
    if scenario.rank is not None:
        lines.append(f"rank = {scenario.rank}")
    if scenario.host is not None:
        lines.append(f"host = {quoted(scenario.host)}")
    if scenario.hosts:
        lines.append(f"hosts = [{', '.join(quoted(each) for each in scenario.hosts)}]")
    if scenario.confidence is not None:
        lines.append(f"confidence = {quoted(scenario.confidence)}")
    if scenario.also:
        lines.append(f"also = {list(scenario.also)}")
    if scenario.key is not None:
        lines.append(f"key = '''{scenario.key}'''")
    hung = getattr(scenario, "hung", None)
    if hung is not None:
        lines.append(f"hung = {str(hung).lower()}")
    lines.append(f"torch = {quoted(scenario.torch)}")
    lines.append(f"kind = {quoted(scenario.kind)}")
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """A TOML string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def write(scenario: Scenario, kept: Path) -> Path:
    """Makes the case of what a run left, or the healthy log; empty files are left out.

    A case that was labelled keeps its label: a second reader may have mended it.
    """
    if scenario in healthy.RUNS:
        HEALTHY.mkdir(exist_ok=True)
        log = (kept / "console.log").read_bytes()
        (HEALTHY / f"torch-{scenario.torch}.log").write_bytes(trimmed(sanitised(log, scenario)))
        return HEALTHY
    case = CASES / scenario.name
    label = case / "expected.toml"
    known = label.read_text() if label.exists() else truth(scenario)
    shutil.rmtree(case, ignore_errors=True)
    for file in sorted(kept.rglob("*")):
        if not file.is_file() or file.stat().st_size == 0:
            continue
        into = case / file.relative_to(kept)
        into.parent.mkdir(parents=True, exist_ok=True)
        into.write_bytes(sanitised(file.read_bytes(), scenario))
    label.write_text(known)
    return case


def trimmed(data: bytes) -> bytes:
    """Of lines that differ in numbers only, the first three."""
    seen: Counter[bytes] = Counter()
    kept = []
    for line in data.splitlines(keepends=True):
        shape = re.sub(rb"\d+", b"0", line)
        seen[shape] += 1
        kept += [line] if seen[shape] <= 3 else []
    return b"".join(kept)


def sanitised(data: bytes, scenario: Scenario) -> bytes:
    """Without what is of this machine only."""
    data = data.replace(str(local.venv(scenario.torch)).encode(), b"/opt/venv")
    return re.sub(rb"/tmp/ff-recording/[^/\s\"']+/work", b"/home/alice/train", data)


def chosen(names: Iterable[str]) -> list[Scenario]:
    """The scenarios whose names begin so."""
    known = (*SCENARIOS, *healthy.RUNS)
    return [each for each in known if any(each.name.startswith(name) for name in names)]


def main(names: list[str]) -> None:
    """Runs the chosen scenarios, several at once, and writes their cases."""
    Path("/opt/venv").mkdir(exist_ok=True)

    def one(scenario: Scenario) -> None:
        try:
            top = local.run(scenario)
        except (OSError, LookupError, subprocess.SubprocessError) as error:
            print(f"{scenario.name}: {error!r}", flush=True)
            return
        case = write(scenario, top / "kept")
        size = sum(file.stat().st_size for file in case.rglob("*") if file.is_file())
        ranks = {rank: who["host"] for rank, who in sorted(local.roster(top).items())}
        print(f"{scenario.name}: {size} bytes, {ranks}", flush=True)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, chosen(names)))


if __name__ == "__main__":
    main(sys.argv[1:])
