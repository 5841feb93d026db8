"""Makes a case of a run of tests/cluster, with the records of the collector.

    FIRSTFAULT_TORCH_VENV=/opt/ff-torch-2.4.1 FIRSTFAULT_KEEP_RUNS=/tmp/kept \\
        .venv/bin/python -m pytest tests/cluster -k segfault-plain
    .venv/bin/python -m tests.diagnosis.recording.live /tmp/kept/segfault-plain live-t24-segfault 2.4.1
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

from tests.cluster import jobs
from tests.cluster.scenarios import SCENARIOS
from tests.diagnosis.recording import local
from tests.diagnosis.recording.write import CASES, quoted


def sanitised(text: str, torch: str) -> str:
    """Without what is of this machine only."""
    text = text.replace(str(local.venv(torch)), "/opt/venv")
    text = re.sub(r"/tmp/firstfault-cluster-\w+/work", "/home/alice", text)
    text = re.sub(r"/tmp/firstfault-cluster-\w+/spool/n\d", "/var/spool/slurmd", text)
    text = re.sub(r"/tmp/firstfault-cluster-\w+/etc", "/etc/slurm", text)
    return text.replace(jobs.USER, "alice").replace("firstfaulttest", "cluster1")


def everywhere(value: Any, torch: str) -> Any:
    """A JSON value with all its texts sanitised."""
    if isinstance(value, str):
        return sanitised(value, torch)
    if isinstance(value, list):
        return [everywhere(each, torch) for each in value]
    if isinstance(value, dict):
        return {key: everywhere(each, torch) for key, each in value.items()}
    return value


def record(data: bytes, torch: str) -> dict[str, Any]:
    """A record with its texts sanitised and the sizes of whole files as they are then."""
    found: dict[str, Any] = everywhere(json.loads(gzip.decompress(data)), torch)
    for file in found["files"]:
        if file["complete"]:
            file["size"] = sum(len(each["text"].encode()) for each in file["excerpts"])
    return found


def main(kept: Path, name: str, torch: str) -> None:
    """Writes the case."""
    case = CASES / name
    (case / "records").mkdir(parents=True, exist_ok=True)
    for path in sorted((kept / "records").glob("*.json.gz")):
        text = json.dumps(record(path.read_bytes(), torch))
        into = case / "records" / sanitised(path.name, torch)
        into.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    (case / "sacct.txt").write_text(sanitised((kept / "sacct.txt").read_text(), torch))
    meta = json.loads((kept / "meta.json").read_text())
    (scenario,) = (each for each in SCENARIOS if each.name == meta["name"])
    lines = [f'cause = ["{scenario.cause}"]']
    if scenario.rank is not None:
        host = next(each["host"] for each in meta["roster"] if each["rank"] == scenario.rank)
        lines += [f"rank = {scenario.rank}", f'host = "{host}"']
    lines += ['confidence = "confirmed"', f"torch = {quoted(torch)}"]
    lines += [f"kind = {quoted(scenario.name)}"]
    (case / "expected.toml").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
