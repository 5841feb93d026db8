"""A systemd of its own over this machine's files: namespaces and an overlay, no virtual machine.

What is written there goes to memory and is gone at the end. Needs root, systemd and a cgroup2 mount.
"""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

SYSTEMD = Path("/lib/systemd/systemd")
BOOT_S = 60.0
# Run by /bin/sh as the first process of the namespaces; $1: the new root, $2: its
# layers, $3: this clone, which may lie in /tmp.
_SETUP = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$2"
mkdir "$2/upper" "$2/work"
mount -t overlay -o "lowerdir=/,upperdir=$2/upper,workdir=$2/work" overlay "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs dev
for name in null zero full random urandom tty kmsg; do
  : >"dev/$name"
  mount --bind "/dev/$name" "dev/$name"
done
mkdir dev/pts dev/shm
mount -t devpts devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
: >dev/console
mount --bind "$(tty)" dev/console
mount -t tmpfs tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
case $3 in /tmp/*) mkdir -p ".$3" && mount --bind "$3" ".$3" ;; esac
rm -rf etc/systemd/system/*.wants
mkdir oldroot
pivot_root . oldroot
umount -l /oldroot
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd \\
  --log-target=console --show-status=0 --unit=multi-user.target
"""


class MachineError(RuntimeError):
    """The machine did not start, or a command in it failed; the message holds what was said."""


def missing() -> str | None:
    """What keeps such a machine from running here, None if nothing does."""
    if os.geteuid() != 0:
        return "a systemd of its own needs root"
    if not SYSTEMD.exists():
        return "systemd is not installed"
    if _cgroup2() is None:
        return "no cgroup2 is mounted"
    return None


class Machine:
    """The running machine; ``pid`` is its systemd's, seen from outside."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    @property
    def root(self) -> Path:
        """The machine's files, from outside."""
        return Path(f"/proc/{self.pid}/root")

    def run(self, *argv: str, check: bool = True, seconds: float = 60) -> str:
        """What a command in the machine prints. Raises MachineError where it fails."""
        done = subprocess.run(
            ["nsenter", f"--target={self.pid}", "--all", "env", "-i", "LC_ALL=C", _PATH, *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=seconds,
        )
        if check and done.returncode != 0:
            raise MachineError(f"{' '.join(argv)} ended with {done.returncode}: {done.stdout}")
        return done.stdout

    def shown(self, unit: str, name: str) -> str:
        """A property of a unit."""
        return self.run("systemctl", "show", "--value", f"--property={name}", unit).strip()

    def journal(self, unit: str) -> str:
        """What the unit has said."""
        return self.run("journalctl", "--no-pager", "--output=cat", f"--unit={unit}")


_PATH = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"


@contextlib.contextmanager
def booted() -> Iterator[Machine]:
    """A machine that has booted; everything in it ends with the block."""
    reason = missing()
    if reason is not None:
        raise MachineError(reason)
    group = _cgroup2()
    assert group is not None
    place = Path(tempfile.mkdtemp(prefix="firstfault-systemd-"))
    inner = group / place.name
    for folder in (place / "root", place / "layers", inner):
        folder.mkdir()
    console, terminal = pty.openpty()
    enter = f'echo $$ >"{inner}/cgroup.procs" && exec "$@"'
    spaces = ["--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc", "--cgroup"]
    places = [str(place / "root"), str(place / "layers"), str(Path(__file__).parents[2])]
    setup = ["/bin/sh", "-c", _SETUP, "setup", *places]
    with subprocess.Popen(
        ["/bin/sh", "-c", enter, "enter", "unshare", *spaces, *setup],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    ) as starter:
        try:
            yield _ready(starter, console)
        finally:
            starter.kill()
            starter.wait()
            os.close(console)
            os.close(terminal)
            _remove(inner)
            shutil.rmtree(place, ignore_errors=True)


def _ready(starter: subprocess.Popen[bytes], console: int) -> Machine:
    os.set_blocking(console, False)
    said = b""
    until = time.monotonic() + BOOT_S
    while time.monotonic() < until and starter.poll() is None:
        with contextlib.suppress(BlockingIOError, OSError):
            said += os.read(console, 65536)
        children = Path(f"/proc/{starter.pid}/task/{starter.pid}/children").read_text().split()
        if children and Path(f"/proc/{children[0]}/comm").read_text() == "systemd\n":
            machine = Machine(int(children[0]))
            state = machine.run("systemctl", "is-system-running", check=False).strip()
            if state in ("running", "degraded"):
                return machine
        time.sleep(0.2)
    raise MachineError(f"it did not boot: {said.decode(errors='replace')[-3000:]}")


def _cgroup2() -> Path | None:
    for line in Path("/proc/mounts").read_text().splitlines():
        _, folder, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(folder)
    return None


# Processes end in their own time after their namespace's first one was killed.
def _remove(group: Path) -> None:
    for _ in range(50):
        folders = sorted((p for p in group.rglob("*") if p.is_dir()), reverse=True)
        with contextlib.suppress(OSError):
            for folder in (*folders, group):
                folder.rmdir()
            return
        time.sleep(0.1)
