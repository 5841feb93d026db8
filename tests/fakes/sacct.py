"""A program in sacct's place: knows the rows it is given, and misbehaves as it is told to.

    sacct = SacctProgram(folder)
    sacct.know("4242", rows)
    sacct.behave("slow 3")

It offers columns, prints them with the delimiter it is asked for (also at the end of a line) and knows jobs by number, as
sacct(1) of Slurm 22.05 to 25.11 does. How it behaves may change while it is in use: "ok", "fail"
(slurmdbd does not answer), "garbage", "empty", "slow SECONDS", "hang" (until it is killed).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

COLUMNS = (
    "Account Cluster DerivedExitCode Elapsed End ExitCode JobID JobIDRaw JobName MaxRSS NodeList "
    "Partition Reason ReqMem Start State Submit Timelimit TimelimitRaw UID User WorkDir"
)

_PROGRAM = r"""#!{python} -IS
import json, os, pathlib, sys, time
folder = pathlib.Path({folder!r})
with open(folder / "asked", "a") as asked:
    asked.write(json.dumps(sys.argv[1:]) + "\n")
behaviour, _, seconds = (folder / "behaviour").read_text().partition(" ")
if behaviour == "fail":
    sys.exit("sacct: error: slurm_persist_conn_open_without_init: failed to open persistent "
             "connection to host:localhost:6819: Connection refused")
if behaviour == "garbage":
    sys.stdout.buffer.write(os.urandom(200000))
    sys.exit(0)
if behaviour in ("slow", "hang"):
    time.sleep(float(seconds or 86400))
if "--helpformat" in sys.argv:
    print({columns!r})
    sys.exit(0)
options = dict(part.split("=", 1) for part in sys.argv[1:] if "=" in part)
names = options["--format"].split(",")
delimiter = options["--delimiter"]
print(delimiter.join([*names, ""]))
known = json.loads((folder / "known").read_text()) if behaviour != "empty" else {{}}
for job in options["--jobs"].split(",") if "--jobs" in options else known:
    for row in known.get(job, ()):
        print(delimiter.join([*(row.get(name, "") for name in names), ""]))
"""


class SacctProgram:
    """The program at ``path``, below ``folder``."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.path = folder / "sacct"
        self._folder = folder
        self._known: dict[str, list[dict[str, str]]] = {}
        self.behave("ok")
        self.know({})
        self.path.write_text(
            _PROGRAM.format(python=sys.executable, folder=str(folder), columns=COLUMNS)
        )
        self.path.chmod(0o755)

    def behave(self, how: str) -> None:
        """From the next question on: see above."""
        _replace(self._folder / "behaviour", how)

    def know(self, rows: Mapping[str, Iterable[dict[str, str]]]) -> None:
        """Adds jobs by number: a row for the job, one for each step."""
        self._known.update((job, list(of_job)) for job, of_job in rows.items())
        _replace(self._folder / "known", json.dumps(self._known))

    def asked(self) -> list[list[str]]:
        """The arguments of each call so far."""
        path = self._folder / "asked"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _replace(path: Path, text: str) -> None:
    # The program may be reading it.
    draft = path.with_name(path.name + ".new")
    draft.write_text(text)
    draft.replace(path)
