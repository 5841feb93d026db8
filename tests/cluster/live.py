"""`./demo --slurm`: a real four-node Slurm on this machine, and a real job of which a rank dies."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

import click

from firstfault import demo
from tests.cluster import jobs, session, slurm_cluster

_NAME = "oom-4n"


@click.command()
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), required=True)
def main(folder: Path) -> None:
    """Run a real job that fails, and leave report.html and verdict.json in FOLDER."""
    reason = slurm_cluster.missing() or jobs.missing()
    if reason is not None:
        raise click.ClickException(reason)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _play(folder.absolute())
    except (demo.DemoError, slurm_cluster.ClusterError, TimeoutError) as error:
        raise click.ClickException(str(error)) from error


def _play(kept: Path) -> None:
    demo.say("Starting MUNGE, MariaDB, slurmdbd, slurmctld and four slurmd ...")
    with session.running([_NAME]) as cluster:
        run = cluster.runs[_NAME]
        demo.say(f"Job {run.job}: four nodes, eight ranks, one of which eats its memory ...")
        cluster.finished(_NAME)
        ended_at = time.monotonic()
        verdict = cluster.verdict(_NAME)
        demo.say(f"Slurm says {verdict['job']['state']}; the report follows.")
        if cluster.messages(_NAME):
            waited = cluster.messages(_NAME)[0].monotonic_s - ended_at
            when = "before" if waited < 0 else f"{waited:.1f} s after"
            demo.say(f"The owner's Slack message was there {when} Slurm's own word of the end.")
        config = cluster.base / "etc/firstfault.toml"
        demo.show(config, run.job, kept, verdict)
        if sys.stdin.isatty() and sys.stdout.isatty():
            demo.say(f"The page is served at http://127.0.0.1:{cluster.port}/ until Ctrl-C.")
            with contextlib.suppress(KeyboardInterrupt):
                while True:
                    time.sleep(3600)


if __name__ == "__main__":
    main()
