"""What signatures know of the kernel's other lines, with what the lines after them add.

A hung task's stack names the file system that it waits in; an oops's dump names the process that
was running; a server or a service that was lost may be found again. Formats from kernel/hung_task.c,
lib/dump_stack.c, net/sunrpc/clnt.c, Lustre's ptlrpc/import.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from firstfault.model.event import KernelSign
from firstfault.readers.kernel_faults import process_of
from firstfault.readers.kernel_heads import KERNEL
from firstfault.readers.kernel_records import Record
from firstfault.signatures import Signature, meaning, signatures

_HUNG = "kernel.hung-task"
_DUMPS = frozenset({"kernel.oops", "kernel.bug", "kernel.amdgpu-page-fault"})
# "[<ffffffffa03b5d2e>] nfs_wait_bit_killable+0x1e/0xa0 [nfs]", " ? mmfs_x+0x1/0x2 [mmfs26]"; on ARM
# "[<80a87848>] (__schedule) from [<80a88018>] (schedule+0x3c/0xa0)".
_FRAME = re.compile(
    r"(?P<function>[\w.]{1,128})\+0x[0-9a-f]{1,8}/0x[0-9a-f]{1,8}(?: \[(?P<module>\w{1,64})\])?"
)
_MODULES = {
    "nfs": "NFS", "nfsv3": "NFS", "nfsv4": "NFS", "sunrpc": "NFS",
    "lustre": "Lustre", "osc": "Lustre", "mdc": "Lustre", "lov": "Lustre", "ptlrpc": "Lustre",
    "obdclass": "Lustre", "lmv": "Lustre", "ksocklnd": "Lustre", "ko2iblnd": "Lustre",
    "mmfs": "GPFS", "mmfs26": "GPFS", "mmfslinux": "GPFS", "beegfs": "BeeGFS",
    "ceph": "Ceph", "libceph": "Ceph", "rbd": "Ceph", "fuse": "FUSE", "cifs": "CIFS",
    "wekafsio": "WekaFS", "wekafsgw": "WekaFS", "panfs": "PanFS", "pvfs2": "OrangeFS",
    "xfs": "XFS", "ext4": "ext4", "jbd2": "ext4", "btrfs": "Btrfs", "zfs": "ZFS", "spl": "ZFS",
}  # fmt: skip
# A file system that is built into the kernel has no module's name: its functions tell.
_FUNCTIONS = re.compile(
    r"(?P<NFS>nfs[34]?_|rpc_wait_bit)|(?P<ext4>ext4_|jbd2_)|(?P<XFS>xfs_|xlog_)"
    r"|(?P<Btrfs>btrfs_)|(?P<FUSE>fuse_|request_wait_answer)|(?P<Ceph>ceph_)|(?P<CIFS>cifs_|smb2_)"
    r"|(?P<disk>io_schedule|blk_mq_|submit_bio_wait|wait_on_page_bit|folio_wait_bit)"
    r"|(?P<files>vfs_(?:fsync|statx|getattr|unlink|mkdir|rename|rmdir|create|open)|path_openat|do_last"
    r"|bit_wait|out_of_line_wait_on_bit|lookup_slow|lookup_open|filename_(?:create|lookup)|do_filp_open|filp_close)"
)
# They say less than the file system that they wait for.
_VAGUE = {"disk": "the disk", "files": "a file system"}
_FRAMES = 60
_RECOVERED = (
    re.compile(r"nfs: server (?P<server>\S{1,253}) OK$"),
    re.compile(r"Lustre: .{1,200}: Connection restored to (?P<service>\S{1,200}) \(at "),
    re.compile(r"CIFS: .{0,200}(?P<server>\\\\\S{1,253}) (?:has )?reconnected"),
)
_WELL = (" OK", "restored", "reconnected")
_TARGET_NAMES = ("server", "service")


class SignReader:
    """Takes the records of one log in turn; gives the signs at the log's end, as later lines may
    say more of them.
    """

    def __init__(self) -> None:
        self._found: list[KernelSign] = []
        # The sign whose stack or dump is being read, with the lines that it may still have.
        self._open: tuple[int, int] | None = None
        self._lost: dict[tuple[str | None, str], list[int]] = {}

    def feed(self, record: Record) -> None:
        """A record of the kernel's; another's says nothing."""
        if record.writer != KERNEL:
            return
        if self._open is not None:
            self._more(record)
        text = record.text
        signature = meaning("kernel", text)
        if signature is None:
            if self._lost and any(word in text for word in _WELL):
                self._recovered(record)
            return
        sign = _sign(record, signature)
        at = len(self._found)
        self._found.append(sign)
        facts = dict(sign.facts)
        for name in _TARGET_NAMES:
            if name in facts:
                self._lost.setdefault((sign.host, facts[name]), []).append(at)
        self._open = (at, _FRAMES) if signature.id in {_HUNG, *_DUMPS} else self._open

    def signs(self) -> Iterator[KernelSign]:
        """All signs of the log, in its order."""
        yield from self._found

    # The next lines of a stack or a dump; anything may stand between them.
    def _more(self, record: Record) -> None:
        assert self._open is not None
        at, left = self._open
        sign = self._found[at]
        self._open = (at, left - 1) if left > 1 else None
        if sign.signature in _DUMPS and sign.pid is None:
            if process := process_of(record.text):
                self._found[at] = msgspec.structs.replace(sign, pid=process[0], command=process[1])
                self._open = None
        elif sign.signature == _HUNG and (where := _waits_in(record.text)):
            facts = dict(sign.facts)
            if where not in _VAGUE or "module" not in facts:
                facts["module"] = _VAGUE.get(where, where)
            self._found[at] = msgspec.structs.replace(
                sign, means="storage.hang", facts=tuple(facts.items())
            )
            if where not in _VAGUE:
                self._open = None

    def _recovered(self, record: Record) -> None:
        for pattern in _RECOVERED:
            if match := pattern.match(record.text):
                (name,) = match.groups()
                for at in self._lost.pop((record.host, name), ()):
                    sign = self._found[at]
                    self._found[at] = msgspec.structs.replace(
                        sign, facts=(*sign.facts, ("recovered", "yes"))
                    )
                return


def _waits_in(text: str) -> str | None:
    for match in _FRAME.finditer(text):
        if module := match["module"]:
            return _MODULES.get(module)
        if found := _FUNCTIONS.match(match["function"]):
            return found.lastgroup
    return None


def _sign(record: Record, signature: Signature) -> KernelSign:
    pid = command = None
    facts: tuple[tuple[str, str], ...] = ()
    for each in signatures("kernel"):
        if each.signature.id == signature.id and (match := each.regex.search(record.text)):
            groups = {key: value for key, value in match.groupdict().items() if value is not None}
            number = groups.pop("pid", None)
            command = groups.pop("command", None)
            pid = int(number) if number is not None else None
            facts = tuple(groups.items())
    return KernelSign(
        record.place,
        record.at,
        record.host,
        signature.id,
        signature.means,
        pid,
        command,
        facts,
        boot=record.boot,
    )
