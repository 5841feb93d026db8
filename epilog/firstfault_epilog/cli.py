"""The collector's commands: collect, check, version."""

import argparse
import os
import resource
import sys
from typing import List

from firstfault_epilog import __version__, collector
from firstfault_epilog import settings as node_settings


def main(argv: List[str]) -> int:
    """Runs one command; its exit status.

    0: done; 1: ``check`` found a fault; 2: bad usage; `collector.NOT_NOW`: the queue or the spool
    cannot be used, which is told; `collector.FAILED`, or any other: a failure of its own.
    """
    parser = argparse.ArgumentParser(
        prog="firstfault-epilog.pyz",
        description="Collects the evidence of jobs that ended on this node.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    collect = commands.add_parser("collect", help="turn the queue's entries into evidence records")
    check = commands.add_parser("check", help="tell, point by point, whether this node is set up")
    check.add_argument("job", metavar="JOBID", nargs="?", help="what this job's record would hold")
    for command in (collect, check):
        command.add_argument("--config", metavar="FILE", default=node_settings.DEFAULT_PATH)
    commands.add_parser("version", help="print the version")
    arguments = parser.parse_args(argv)
    if arguments.command == "version":
        print(f"firstfault-epilog {__version__}")
        return 0
    if arguments.command == "check":
        # Not loaded for each end of a job: the archive's modules are compiled at each start.
        from firstfault_epilog import checks, preview

        if arguments.job is not None:
            return preview.run(arguments.config, arguments.job, sys.stdout)
        return checks.run(arguments.config, sys.stdout)
    if arguments.command == "collect":
        return _collect(arguments.config)
    parser.print_usage(sys.stderr)
    return 2


def _collect(config: str) -> int:
    # No other process may read this one's memory or core: it holds strangers' logs.
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    settings, faults = node_settings.read(config)
    for fault in faults:
        collector.warn(fault)
    return collector.run(settings, os.path.join(os.path.dirname(config), "off"))
