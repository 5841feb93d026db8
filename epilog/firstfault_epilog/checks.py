"""Whether this node is set up, point by point."""

import os
import stat
import sys
from typing import List, NamedTuple, Optional, TextIO

from firstfault_epilog import (
    backlog,
    entries,
    epilog_lines,
    kernel,
    mounts,
    pending,
    signing,
    spool,
    wanted,
)
from firstfault_epilog import settings as node_settings
from firstfault_epilog.settings import Settings

PATH_UNIT = "/etc/systemd/system/multi-user.target.wants/firstfault-collector.path"
SETSID = "/usr/bin/setsid"


class Point(NamedTuple):
    """One thing looked at; ``remedy`` is None where it is in order."""

    what: str
    remedy: Optional[str]


def run(config: str, out: TextIO) -> int:
    """Prints every point; 0 where all are in order, else 1."""
    settings, faults = node_settings.read(config)
    found = [Point(f"config {config}", "; ".join(faults) or None)]
    if not os.path.exists(config):
        found = [Point(f"config {config}", "it is not there: all defaults; copy etc/epilog.conf")]
    found += [_off(config), *points(settings), *_rank_logs(config, settings)]
    for point in found:
        mark = "ok  " if point.remedy is None else "FAIL"
        print(f"{mark} {point.what}" + (f": {point.remedy}" if point.remedy else ""), file=out)
    return 0 if all(point.remedy is None for point in found) else 1


def points(settings: Settings) -> List[Point]:
    """The state of this node as ``settings`` would have it."""
    return [
        _python(settings),
        _root(),
        *_slurm(),
        _queue(settings),
        _works(settings),
        _starter(settings),
        _spool(settings) if settings.daemon is None else _own_spool(settings),
        *_daemon(settings),
        *_pending(settings),
        _kernel_log(settings),
    ]


def _off(config: str) -> Point:
    path = os.path.join(os.path.dirname(config), "off")
    off = os.path.exists(path)
    return Point("switched on", f"{path} turns everything off: remove it" if off else None)


# The script tries other places where FIRSTFAULT_PYTHON is none: this one runs, and tells.
def _python(settings: Settings) -> Point:
    version = "{}.{}.{}".format(*sys.version_info[:3])
    if sys.version_info < (3, 6):
        return Point(f"python {version}", "3.6 or later is needed: set FIRSTFAULT_PYTHON")
    found = "" if os.access(settings.python, os.X_OK) else f", as {settings.python} is not there"
    return Point(f"python {version} ({sys.executable}{found})", None)


def _root() -> Point:
    if os.geteuid() == 0:
        return Point("runs as root", None)
    return Point("runs as root", f"uid {os.geteuid()} can read its own jobs' files only")


def _queue(settings: Settings) -> Point:
    what = f"queue {settings.queue}"
    try:
        entries.prepare(settings.queue)
        waiting = sum(
            len(os.listdir(os.path.join(settings.queue, folder))) for folder in ("ready", "claimed")
        )
        bad = len(os.listdir(os.path.join(settings.queue, "quarantine"))) // 2
    except OSError as error:
        return Point(what, f"{error.strerror}: make it root's, mode 700")
    if bad:
        return Point(what, f"{bad} entries in quarantine: see the .reason files, then remove them")
    return Point(f"{what} ({waiting} waiting)", None)


# What slurm.conf says of the Epilog, where there is a slurm.conf on this node.
def _slurm() -> List[Point]:
    path = epilog_lines.configuration(os.environ.get("SLURM_CONF"))
    if path is None:
        return []
    scripts = epilog_lines.scripts(path)
    found = [Point(f"epilog {name}", fault) for name, fault in epilog_lines.faults(scripts)]
    ours = [name for name in scripts.paths if epilog_lines.is_ours(name)]
    what = f"slurm.conf {path}"
    if ours:
        found.append(Point(f"{what} runs {ours[0]}", None))
    elif scripts.includes:
        found.append(Point(f"{what} (it includes other files, which were not read)", None))
    else:
        found.append(Point(what, "no Epilog= line runs firstfault-epilog: add it, reconfigure"))
    return found


def _works(settings: Settings) -> Point:
    what = "works"
    try:
        off = entries.turned_off(settings.queue)
        failures = entries.failures(settings.queue)
        missed = entries.dropped(settings.queue)
    except OSError as error:
        return Point(what, f"{error.filename}: {error.strerror}")
    if off is not None:
        path = os.path.join(settings.queue, entries.OFF)
        return Point(what, f"turned itself off for an hour at {off}; mend it, then remove {path}")
    if failures:
        return Point(what, f"{len(failures)} failures since its last record: {failures[-1]}")
    if missed:
        return Point(what, f"{missed} ends of jobs were not noted: nobody took the queue")
    return Point(what, None)


def _starter(settings: Settings) -> Point:
    unit = os.path.isdir("/run/systemd/system") and os.path.islink(PATH_UNIT)
    if settings.start == "systemd" and not unit:
        remedy = "systemctl enable --now firstfault-collector.path, or FIRSTFAULT_START=detach"
        return Point("start by systemd", remedy)
    if settings.start == "systemd" or (settings.start == "auto" and unit):
        return Point("start by systemd", None)
    if not os.access(SETSID, os.X_OK):
        return Point("start detached", f"{SETSID} is not there: install util-linux")
    if not os.access(settings.pyz, os.R_OK):
        return Point("start detached", f"{settings.pyz} cannot be read: set FIRSTFAULT_PYZ")
    return Point("start detached", None)


def _spool(settings: Settings) -> Point:
    what = f"spool {settings.spool}"
    if not os.path.isdir(settings.spool):
        return Point(what, "it is not there: make it, root:firstfault, mode 2770")
    if not os.access(settings.spool, os.W_OK | os.X_OK):
        return Point(what, "it cannot be written: root needs it writable (root_squash?)")
    return Point(what, None)


# Where records wait for the daemon.
def _own_spool(settings: Settings) -> Point:
    what = f"spool {settings.spool}"
    try:
        spool.prepare(settings.spool)
        waiting = len(spool.waiting(settings.spool))
        bad = len(spool.refused(settings.spool))
    except OSError as error:
        return Point(what, error.strerror)
    failures = backlog.state(settings.queue).all.failures
    if bad:
        place = os.path.join(settings.spool, spool.REFUSED)
        return Point(
            what, f"the daemon refused {bad} records: see the .reason files in {place}, remove them"
        )
    told = f", {failures} attempts failed in a row" if failures else ""
    return Point(f"{what} ({waiting} records wait{told})", None)


# Whether the daemon answers, and takes this node's signature: a question on nothing.
def _daemon(settings: Settings) -> List[Point]:
    if settings.daemon is None:
        return []
    from firstfault_epilog import sending

    health = Point(f"daemon {settings.daemon}", sending.get(settings, "/healthz").fault)
    node = os.uname().nodename.partition(".")[0]
    signature = f"signature by {signing.scheme(settings)}"
    try:
        signing.authorization(settings, sending.WANTED, node, b"")
    except signing.SigningError as error:
        return [health, Point(signature, str(error))]
    if health.remedy is not None:
        return [health, Point(f"{signature} (whether it is accepted cannot be asked)", None)]
    answer = sending.post(settings, sending.WANTED, node, wanted.question(node, None, []))
    return [health, Point(f"{signature} is accepted", answer.fault)]


# Ends that wait for the daemon's word, where there are any.
def _pending(settings: Settings) -> List[Point]:
    place = pending.folder(settings.spool)
    try:
        waiting = len(pending.waiting(settings.spool))
        lost = pending.lost(settings.spool)
        bad = pending.put_aside_count(settings.spool)
    except OSError as error:
        return [Point(f"pending ends {place}", f"{error.strerror}: make it root's, mode 700")]
    what = f"pending ends {place} ({waiting} waiting for the daemon's word)"
    if bad:
        return [Point(what, f"{bad} in {pending.ASIDE}: see the .reason files, then remove them")]
    if lost:
        return [Point(what, f"{lost} were given up: the daemon did not tell; look at its log")]
    return [Point(what, None)] if waiting else []


def _kernel_log(settings: Settings) -> Point:
    log = kernel.read(settings.kernel_log)
    what = f"kernel log {log.name} ({len(log.lines)} records)"
    if not log.lines:
        return Point(what, log.coverage[0].detail or "it is empty")
    return Point(what, None)


# What the TaskProlog, silent as it is, would find wrong.
def _rank_logs(config: str, settings: Settings) -> List[Point]:
    base = settings.rank_log_dir
    if base is None:
        return []
    what = f"rank logs {base}"
    try:
        info = os.lstat(base)
        readable = os.stat(config).st_mode & stat.S_IROTH
    except OSError as error:
        return [Point(what, f"{error.filename}: {error.strerror}: make it root's, mode 1777")]
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != 0 or not info.st_mode & stat.S_ISVTX:
        return [Point(what, "it is not root's folder with the sticky bit: chown root, chmod 1777")]
    if not readable:
        return [Point(what, f"users cannot read {config}, and so not turn it on: chmod 644")]
    if mounts.is_shared(info.st_dev):
        return [Point(f"{what} (a network file system: FIRSTFAULT_RANK_LOG_ANY_FS=1 only)", None)]
    return [Point(what, None)]
