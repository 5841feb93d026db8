"""`firstfault demo`: a recorded failure goes through the real collector, spool, daemon and report.

The recording (recorded/oom-4n) is of a real job on a real four-node Slurm. Nothing of this machine
is read or changed but one folder of its own; the daemon listens on loopback alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import click

RECORDING = "oom-4n"
# Where the recorded job ran; laid out again below a folder of the demo's own.
RECORDED_HOME = "/home/alice/train"
_NOBODY = 65534
_COLLECT_DEADLINE_S = 60.0
_VERDICT_DEADLINE_S = 60.0
_JOB_DEADLINE_S = 30.0
# Slurm's accounting is asked a moment after the first verdict, which is then revised.
_FACTS_DEADLINE_S = 15.0


class DemoError(RuntimeError):
    """The demonstration could not go on; the message says what failed and where to look."""


@dataclass(frozen=True)
class Owner:
    """Whose job it is made to be: the collector reads the job's files with these rights."""

    uid: int
    gid: int


@dataclass(frozen=True)
class Stage:
    """The demo's own folder, in which the recorded cluster stands again."""

    folder: Path

    @property
    def work_dir(self) -> Path:
        """What was the job's working directory."""
        return self.folder / RECORDED_HOME.lstrip("/")

    @property
    def config(self) -> Path:
        """The daemon's configuration."""
        return self.folder / "firstfault.toml"

    @property
    def epilog_conf(self) -> Path:
        """The collector's configuration."""
        return self.folder / "epilog.conf"


@click.command()
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Leave the report and the evidence here (default: a new folder for temporary files).",
)
def demo(folder: Path | None) -> None:
    """Replay a recorded real failure through collector, spool, daemon and report."""
    kept = _temporary() if folder is None else folder.absolute()
    try:
        kept.mkdir(parents=True, exist_ok=True)
        _play(_stage(kept, _owner()), kept)
    except DemoError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.filename or kept}: {error.strerror}") from error


def _play(stage: Stage, kept: Path) -> None:
    recording = resources.files("firstfault") / "recorded" / RECORDING
    facts = json.loads((recording / "meta.json").read_text("utf-8"))
    job, nodes = str(facts["job"]), sorted(facts["epilog_at"])
    say(f"A recorded job: {job}, {len(nodes)} nodes ({', '.join(nodes)}), two ranks on each.")
    lay_out(stage, recording, facts, _owner())
    port = free_port()
    write_config(stage, port)
    with serving(stage.config, stage.folder / "daemon.log"):
        say(f"The collector reads the evidence of {len(nodes)} nodes ...")
        collect(stage)
        say("The daemon takes the records in and judges ...")
        verdict = await_verdict(stage.config, job)
        show(stage.config, job, kept, verdict)
        say(f"The evidence that it quotes: {stage.work_dir}")
        if sys.stdin.isatty() and sys.stdout.isatty():
            say(f"The page is served at http://127.0.0.1:{port}/ until Ctrl-C.")
            with contextlib.suppress(KeyboardInterrupt):
                while True:
                    time.sleep(3600)


def show(config: Path, job: str, kept: Path, verdict: dict[str, Any]) -> None:
    """Prints the job's report and leaves the page and the verdict in the folder ``kept``."""
    click.echo()
    click.echo(report(config, job, "text").decode("utf-8", "replace"))
    (kept / "report.html").write_bytes(report(config, job, "html"))
    (kept / "verdict.json").write_text(json.dumps(verdict, indent=1) + "\n", "utf-8")
    say(f"The report as a page: {kept / 'report.html'}")
    say(f"The same for programs: {kept / 'verdict.json'}")


def lay_out(stage: Stage, recording: Traversable, facts: dict[str, Any], owner: Owner) -> None:
    """Puts the recorded evidence where the collector will look for it, and writes its queue.

    The queue's entries are what the Epilog noted on each node; their times are when it did.
    """
    job = str(facts["job"])
    for name in ("queue/ready", "spool"):
        (stage.folder / name).mkdir(mode=0o700, parents=True)
    (stage.folder / "queue").chmod(0o700)
    ended_at = max(facts["epilog_at"].values())
    for path in reversed([stage.work_dir.parent, *stage.work_dir.parent.parents]):
        if path.is_relative_to(stage.folder):
            path.mkdir(exist_ok=True)
            path.chmod(0o755)
    _copy(recording / "work", stage.work_dir, owner, ended_at)
    for name in ("kmsg.txt", "sacct.txt"):
        (stage.folder / name).write_bytes((recording / name).read_bytes())
    for number, (node, at) in enumerate(sorted(facts["epilog_at"].items()), 1):
        environment = (recording / f"epilog.{node}.txt").read_text("utf-8")
        entry = stage.folder / "queue/ready" / f"{job}-{node}-{number}"
        entry.write_bytes(queue_entry(environment, stage.folder, owner))
        os.utime(entry, (at, at))
    stage.epilog_conf.write_text(
        f"FIRSTFAULT_QUEUE={stage.folder}/queue\n"
        f"FIRSTFAULT_SPOOL={stage.folder}/spool\n"
        f"FIRSTFAULT_KERNEL_LOG={stage.folder}/kmsg.txt\n"
        f"FIRSTFAULT_KERNEL_OFFSET_S={facts['kmsg_offset']}\n"
        f"FIRSTFAULT_BOOT_ID={facts['boot_id']}\n"
        f"FIRSTFAULT_RANK_LOGS={stage.work_dir}/ranks/%N/%j_*\n",
        "utf-8",
    )


def queue_entry(environment: str, folder: Path, owner: Owner) -> bytes:
    """What the Epilog notes, from a recorded environment (KEY=VALUE lines).

    Paths of the recorded job are moved below ``folder`` and the job is given to ``owner``.
    """
    fields = []
    for line in environment.splitlines():
        key, _, value = line.partition("=")
        if key.endswith(("_UID", "_GID")):
            value = str(owner.uid if key.endswith("_UID") else owner.gid)
        if key.startswith("SLURM"):
            fields.append(f"{key}={value.replace(RECORDED_HOME, f'{folder}{RECORDED_HOME}')}")
    return "\0".join(["firstfault.entry/1", *fields, "firstfault.end", ""]).encode()


def write_config(stage: Stage, port: int) -> None:
    """The daemon's configuration: everything in the demo's folder, pages on loopback."""
    sacct = stage.folder / "sacct"
    # the recorded answer of sacct --parsable, with the delimiter that the daemon asks for
    sacct.write_text(
        "#!/bin/sh\n"
        f"file={stage.folder}/sacct.txt\n"
        "for argument; do\n"
        "  case $argument in\n"
        "    --helpformat) head -n 1 \"$file\" | tr '|' ' '; exit ;;\n"
        "    --delimiter=*) delimiter=${argument#*=} ;;\n"
        "  esac\n"
        "done\n"
        'sed "s/$/|/; s/|/$delimiter/g" "$file"\n',
        "utf-8",
    )
    sacct.chmod(0o700)
    stage.config.write_text(
        f"allow_root = {'true' if os.geteuid() == 0 else 'false'}\n"
        f'[spool]\ndir = "{stage.folder}/spool"\nscan_s = 0.5\n'
        f'[store]\nurl = "sqlite:///{stage.folder}/firstfault.db"\n'
        f'[slurm]\nsource = "sacct"\nsacct = "{sacct}"\n'
        f'[report]\ndir = "{stage.folder}/reports"\n'
        f'[web]\nhost = "127.0.0.1"\nport = {port}\n',
        "utf-8",
    )


def collect(stage: Stage) -> None:
    """Runs the collector over the queue, as the Epilog would start it. Raises DemoError."""
    argv = ["-m", "firstfault_epilog", "collect", "--config", str(stage.epilog_conf)]
    _python(argv, _COLLECT_DEADLINE_S, "the collector")
    records = list((stage.folder / "spool").glob("*.json*"))
    left = sorted((stage.folder / "queue/quarantine").glob("*.reason"))
    if left:
        raise DemoError(f"the collector refused an entry: {left[0].read_text('utf-8').strip()}")
    if not records and not any((stage.folder / "spool").iterdir()):
        raise DemoError(f"the collector wrote no record into {stage.folder}/spool")


@contextlib.contextmanager
def serving(config: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The daemon with this configuration, for the length of the block. Raises DemoError.

    What it says goes into the file ``log``.
    """
    with log.open("ab") as output:
        daemon = subprocess.Popen(  # noqa: S603 - this interpreter, an argv list
            [sys.executable, "-I", "-m", "firstfault", "serve", "--config", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield daemon
        if daemon.poll() is not None:
            raise DemoError(f"the daemon ended by itself: {_tail(log)}")
    finally:
        daemon.terminate()
        try:
            daemon.wait(timeout=10)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait(timeout=10)


def await_verdict(config: Path, job: str) -> dict[str, Any]:
    """The verdict on ``job`` once it is stored, with Slurm's facts if they come in time.

    Raises DemoError after a minute without one.
    """
    until = time.monotonic() + _VERDICT_DEADLINE_S
    verdict: dict[str, Any] | None = None
    while time.monotonic() < until:
        with contextlib.suppress(DemoError, ValueError):
            found = report(config, job, "json")
            if verdict is None:
                until = min(until, time.monotonic() + _FACTS_DEADLINE_S)
            verdict = json.loads(found)
            if verdict is not None and verdict["job"]["state"] is not None:
                return verdict
        time.sleep(0.2)
    if verdict is None:
        log = config.parent / "daemon.log"
        raise DemoError(f"no verdict after {_VERDICT_DEADLINE_S:g} s: {_tail(log)}")
    return verdict


def report(config: Path, job: str, form: str) -> bytes:
    """What `firstfault job` prints of the stored verdict. Raises DemoError with its own words."""
    arguments = ["job", job, "--config", str(config), "--format", form]
    return _python(["-m", "firstfault", *arguments], _JOB_DEADLINE_S, f"firstfault job {job}")


def free_port() -> int:
    """A TCP port on loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def say(text: str) -> None:
    """Progress, apart from the report: on standard error."""
    click.echo(text, err=True)


def _python(arguments: list[str], deadline_s: float, what: str) -> bytes:
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter, an argv list
            [sys.executable, "-I", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=deadline_s,
        )
    except subprocess.TimeoutExpired as error:
        raise DemoError(f"{what} did not end within {deadline_s:g} s") from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()[-1000:]
        raise DemoError(f"{what} ended with status {done.returncode}: {said}")
    return done.stdout


def _temporary() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="firstfault-demo-"))
    folder.chmod(0o755)
    return folder


def _stage(kept: Path, owner: Owner) -> Stage:
    """An empty folder for the evidence, in ``kept`` if the job's owner can get there."""
    folder = kept / "evidence"
    if folder.exists():
        if not (folder / Stage(folder).config.name).is_file():
            raise DemoError(f"{folder} is not of an earlier demonstration: choose another --folder")
        shutil.rmtree(folder)
    everyone = all(path.stat().st_mode & 0o001 for path in (kept, *kept.parents))
    if not everyone and owner.uid != os.geteuid():
        return Stage(_temporary())
    folder.mkdir(mode=0o755)
    return Stage(folder)


def _owner() -> Owner:
    # root's own files are not for the collector to read: then the job is nobody's
    if os.geteuid() == 0:
        return Owner(_NOBODY, _NOBODY)
    return Owner(os.getuid(), os.getgid())


def _copy(source: Traversable, target: Path, owner: Owner, modified_at: float) -> None:
    """Copies a folder; everything in it is ``owner``'s and of the moment ``modified_at``."""
    if source.is_dir():
        target.mkdir()
        for entry in source.iterdir():
            _copy(entry, target / entry.name, owner, modified_at)
    else:
        target.write_bytes(source.read_bytes())
    if os.geteuid() == 0:
        os.chown(target, owner.uid, owner.gid)
    os.utime(target, (modified_at, modified_at))


def _tail(log: Path) -> str:
    return log.read_text("utf-8", "replace").strip()[-1500:] if log.exists() else "it said nothing"
