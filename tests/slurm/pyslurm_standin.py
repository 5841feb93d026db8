"""A package in pyslurm's place for the worker's process: gives recorded jobs, or misbehaves.

Its folder holds `jobs.json` (as recorded) and `behaviour`: "ok", "fail" (an RPCError), "exit 7"
(the library ends the process, as Slurm's fatal() does), "hang", "chatter" (it prints to standard
output and error), "stumble NUMBER" (over that job), "huge" (thousands of jobs of long names), "components" (a
heterogeneous job's number brings all of its components).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from firstfault.slurm.library import PROGRAM

RECORDED = Path(__file__).parent / "recorded/pyslurm-25.11.2-db-jobs.json"

_PACKAGE = r"""
import json, os, pathlib, sys, time
folder = pathlib.Path({folder!r})
with open(folder / "started", "a") as started:
    started.write(f"{{os.getpid()}}\n")

class Thing:
    def __init__(self, fields):
        self.__dict__.update(fields)

class RPCError(Exception):
    pass

class db:
    class Connection:
        @staticmethod
        def open():
            return object()

    class JobFilter:
        def __init__(self, **asked):
            self.asked = asked

    class Jobs:
        @staticmethod
        def load(wanted, connection):
            what, _, argument = (folder / "behaviour").read_text().partition(" ")
            if what == "fail":
                raise RPCError("Failed to get Jobs from slurmdbd")
            if what == "exit":
                print("fatal: Could not establish a configuration source", file=sys.stderr)
                sys.stderr.flush()
                os._exit(int(argument))
            if what == "hang":
                time.sleep(86400)
            if what == "chatter":
                for stream in (1, 2):
                    os.write(stream, b"slurm said: {{\n" * 30000)
            if what == "stumble" and int(argument) in wanted.asked.get("ids", ()):
                [][0]
            jobs = json.loads((folder / "jobs.json").read_text())
            if what == "huge":
                for number in range(20_000):
                    jobs[str(number)] = {{**jobs["1"], "id": number, "name": "x" * 5000}}
            found = {{}}
            for number, job in jobs.items():
                if "allocated_tres" in job:
                    job["allocated_tres"] = Thing(job["allocated_tres"])
                leader = job["heterogeneous_id"] if what == "components" else None
                if {{int(number), leader}} & set(wanted.asked.get("ids", (int(number),))):
                    job["steps"] = {{name: Thing(step) for name, step in job["steps"].items()}}
                    found[int(number)] = Thing(job)
            return found
"""


class PyslurmStandIn:
    """The package in a folder of its own; ``argv`` runs the worker with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        package = folder / "pyslurm"
        package.mkdir()
        (package / "__init__.py").write_text(_PACKAGE.format(folder=str(folder)))
        self.jobs = json.loads(RECORDED.read_text())
        self.know(self.jobs)
        self.behave("ok")

    @property
    def argv(self) -> Sequence[str]:
        return ("/usr/bin/env", f"PYTHONPATH={self.folder}", sys.executable, str(PROGRAM))

    def know(self, jobs: object) -> None:
        (self.folder / "jobs.json").write_text(json.dumps(jobs))

    def behave(self, how: str) -> None:
        (self.folder / "behaviour").write_text(how)

    def pids(self) -> list[int]:
        """The processes that were started, the first first."""
        return [int(line) for line in (self.folder / "started").read_text().split()]
