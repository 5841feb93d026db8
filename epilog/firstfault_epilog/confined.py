"""A child process that has the job owner's rights and nothing else, and what it says.

The parent (root) never opens a user's file. The child is a fork that keeps one pipe, takes the
owner's uid, gid and groups for good, and sends frames: a length (4 bytes, big-endian) and a JSON
object. Whatever the child sends is a stranger's input to the parent.
"""

import ctypes
import json
import os
import pwd
import resource
import select
import signal
import struct
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

FRAME_MAX = 1 << 20
OUTPUT_MAX = 6 << 20
MEMORY_MAX = 512 << 20
GROUPS_DEADLINE_S = 5.0
# From linux/prctl.h.
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38

Send = Callable[[Dict[str, Any]], None]


class Identity(NamedTuple):
    """Whom the child becomes; None in place of an identity keeps the collector's own rights.

    ``home`` is None where it is not known.
    """

    uid: int
    gid: int
    groups: Tuple[int, ...]
    home: Optional[str] = None


class Answer(NamedTuple):
    """The child's frames; ``fault`` says why there may be more to it, None where all came."""

    frames: Tuple[Dict[str, Any], ...]
    fault: Optional[str]


class Child(NamedTuple):
    """A child at work: ``receiver`` can be read from once it has something to say or has ended."""

    pid: int
    receiver: int


def run(work: Callable[[Send], None], identity: Optional[Identity], deadline_s: float) -> Answer:
    """Runs ``work`` in a child with the rights of ``identity``; what it sent.

    After ``deadline_s`` the child is killed, and left behind when it does not die: a process
    that waits for a dead file server cannot be killed. Raises OSError where no child can be made.
    """
    return finish(start(work, identity), deadline_s)


def start(work: Callable[[Send], None], identity: Optional[Identity]) -> Child:
    """Starts ``work`` as `run` does; `finish` has to follow. Raises OSError."""
    receiver, sender = os.pipe()
    parent = os.getpid()
    try:
        child = os.fork()
    except OSError:
        os.close(receiver)
        os.close(sender)
        raise
    if child == 0:
        _be_the_child(work, identity, sender, parent)
    os.close(sender)
    return Child(child, receiver)


def finish(child: Child, deadline_s: float) -> Answer:
    """What the child sent until its end, for which it has ``deadline_s`` from now."""
    try:
        data, fault = _receive(child.receiver, time.monotonic() + deadline_s, deadline_s)
    finally:
        os.close(child.receiver)
        end = _end(child.pid)
    frames, damage = _frames(data)
    return Answer(frames, fault or damage or end)


def identity_of(uid: int, gid: Optional[int], user: Optional[str]) -> Tuple[Identity, List[str]]:
    """The rights of the user ``uid``, and notes on what could not be found out.

    The groups come from the name service, which may hang: asked in a child, for at most
    `GROUPS_DEADLINE_S` seconds; without an answer the child gets the primary group alone.
    """

    def ask(send: Send) -> None:
        try:
            entry = pwd.getpwuid(uid)
            name, primary, home = entry.pw_name, entry.pw_gid, entry.pw_dir
        except KeyError:
            name, primary, home = user or "", -1 if gid is None else gid, ""
        own = primary if gid is None else gid
        groups = os.getgrouplist(name, own) if name and own >= 0 else [own]
        send({"gid": own, "groups": groups, "home": home})

    answer = run(ask, None, GROUPS_DEADLINE_S)
    if answer.frames and answer.fault is None:
        frame = answer.frames[0]
        groups = [group for group in frame["groups"] if isinstance(group, int) and group > 0]
        if frame["gid"] > 0:
            home = frame["home"] if frame["home"].startswith("/") else None
            return Identity(uid, frame["gid"], tuple(groups), home), []
    if gid is None or gid <= 0:
        raise LookupError(f"no group is known of uid {uid}")
    note = (
        f"the groups of uid {uid} could not be found out ({answer.fault}): gid {gid} alone is used"
    )
    return Identity(uid, gid, (gid,)), [note]


# Never returns.
def _be_the_child(
    work: Callable[[Send], None], identity: Optional[Identity], sender: int, parent: int
) -> None:
    status = 1
    try:
        _let_go(sender)
        _limit()
        if identity is not None:
            _become(identity)
        _seal(parent)

        def send(frame: Dict[str, Any]) -> None:
            payload = json.dumps(frame).encode("ascii")
            _write(3, struct.pack("!I", len(payload)) + payload)

        try:
            work(send)
            status = 0
        except Exception as error:  # noqa: BLE001 (the boundary: the parent is told)
            send({"kind": "failure", "error": f"{type(error).__name__}: {error}"[:500]})
    finally:
        os._exit(status)


# Nothing stays open but the pipe, as descriptor 3.
def _let_go(sender: int) -> None:
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    kept = os.dup(sender)
    while kept <= 3:
        kept = os.dup(kept)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.dup2(kept, 3)
    os.closerange(4, max(1024, resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def _limit() -> None:
    os.umask(0o077)
    os.chdir("/")
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        # It may not write a byte to a file; pipes are not counted.
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_AS, MEMORY_MAX),
    ):
        _, hard = resource.getrlimit(limit)
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(limit, (value, value))


def _become(identity: Identity) -> None:
    os.setgroups(list(identity.groups))
    os.setresgid(identity.gid, identity.gid, identity.gid)
    os.setresuid(identity.uid, identity.uid, identity.uid)
    if os.getresuid() != (identity.uid,) * 3 or os.getresgid() != (identity.gid,) * 3:
        raise PermissionError("the rights of root were not given up")
    if identity.uid != 0:
        for take_back in (os.setresuid, os.setresgid):
            try:
                take_back(-1, 0, -1)
            except PermissionError:
                continue
            raise PermissionError("the rights of root can be taken back")
        with open("/proc/self/status", "rb") as file:
            for line in file.read(1 << 16).split(b"\n"):
                if line.startswith((b"CapEff:", b"CapPrm:")) and int(line.split()[1], 16):
                    raise PermissionError("capabilities were not given up")


# After the change of uid, which resets the last two.
def _seal(parent: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value in (
        (PR_SET_NO_NEW_PRIVS, 1),
        (PR_SET_DUMPABLE, 0),
        (PR_SET_PDEATHSIG, int(signal.SIGKILL)),
    ):
        if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"prctl({option}): {os.strerror(number)}")
    if os.getppid() != parent:
        raise ProcessLookupError("the collector is gone")


def _write(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _receive(receiver: int, stop_at: float, deadline_s: float) -> Tuple[bytes, Optional[str]]:
    parts: List[bytes] = []
    size = 0
    poll = select.poll()
    poll.register(receiver, select.POLLIN)
    while True:
        left = stop_at - time.monotonic()
        if left <= 0:
            return b"".join(parts), f"the reader did not end within {deadline_s:g} s"
        if not poll.poll(left * 1000):
            continue
        part = os.read(receiver, 1 << 16)
        if not part:
            return b"".join(parts), None
        parts.append(part)
        size += len(part)
        if size > OUTPUT_MAX:
            return b"".join(parts), f"the reader sent more than {OUTPUT_MAX} bytes"


# None where the child ended well. It has closed its pipe, or its time is up. What it started is
# of its process group, and goes with it: its owner may have stopped that, too.
def _end(child: int) -> Optional[str]:
    stop_at = time.monotonic() + 1.0
    killed = False
    while time.monotonic() < stop_at:
        # Its number, and so its group's, is nobody else's until it is waited for.
        ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None:
            _kill(child)
            _, status = os.waitpid(child, 0)
            if killed or status == 0:
                return None
            return f"the reader ended with wait status {status}"
        if not killed and stop_at - time.monotonic() < 0.9:
            _kill(child)
            killed = True
        time.sleep(0.002)
    return "the reader could not be killed and was left behind"


# The child may not have a group of its own yet.
def _kill(child: int) -> None:
    for kill in (os.killpg, os.kill):
        try:
            kill(child, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def _frames(data: bytes) -> Tuple[Tuple[Dict[str, Any], ...], Optional[str]]:
    frames: List[Dict[str, Any]] = []
    at = 0
    while at < len(data):
        if len(data) - at < 4:
            return tuple(frames), "the reader's last frame is cut"
        (length,) = struct.unpack_from("!I", data, at)
        if length > FRAME_MAX:
            return tuple(frames), "a frame of the reader is too large"
        if len(data) - at - 4 < length:
            return tuple(frames), "the reader's last frame is cut"
        try:
            frame = json.loads(data[at + 4 : at + 4 + length].decode("ascii"))
        except (ValueError, RecursionError):
            return tuple(frames), "a frame of the reader is not JSON"
        if not isinstance(frame, dict):
            return tuple(frames), "a frame of the reader is not an object"
        if frame.get("kind") == "failure":
            return tuple(frames), f"the reader failed: {str(frame.get('error'))[:500]}"
        frames.append(frame)
        at += 4 + length
    return tuple(frames), None
