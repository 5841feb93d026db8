"""Which file systems are a network's: what lies there may be seen by several nodes."""

import os
from typing import Dict, Optional

MOUNTINFO = "/proc/self/mountinfo"
# File systems of one machine; of any other type it is not said (proc(5), /proc/filesystems).
LOCAL = ("tmpfs", "ramfs", "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "overlay", "f2fs", "vfat")
NETWORK = (
    "nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "9p", "afs", "glusterfs",
    "orangefs", "pvfs2", "ocfs2", "gfs2", "wekafs", "panfs",
)  # fmt: skip


def is_shared(device: int) -> Optional[bool]:
    """Whether the file system of ``device`` (st_dev) is a network's; None where not known."""
    kind = _kinds().get(f"{os.major(device)}:{os.minor(device)}")
    if kind in NETWORK or (kind or "").startswith("fuse."):
        return True
    return False if kind in LOCAL else None


def _kinds() -> Dict[str, str]:
    result: Dict[str, str] = {}
    try:
        with open(MOUNTINFO, "rb") as file:
            lines = file.read(4 << 20).decode("utf-8", "replace").split("\n")
    except OSError:
        return result
    for line in lines:
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if separator and len(fields) > 2:
            result[fields[2]] = after.split(" ")[0]
    return result
