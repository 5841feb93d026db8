"""What befell a node, or a process of it, in words: from the kernel's sign."""

from __future__ import annotations

from firstfault.model.fault import Fault

# After "Node n3" or "Rank 2 on n3"; {name} is a fact, and what stands in [] goes where it is missing.
_WORDS = {
    "kernel.panic": "went down in a kernel panic[: {reason}]",
    "kernel.panic-machine-check": "went down in a fatal machine check",
    "kernel.panic-oom": "ran out of memory, and its kernel panicked",
    "kernel.oops": "had a fault in its kernel (oops)",
    "kernel.bug": "had a fault in its kernel (BUG)",
    "kernel.soft-lockup": "had a CPU locked up in the kernel[ for {seconds} s]",
    "kernel.hard-lockup": "had a CPU locked up in the kernel",
    "kernel.rcu-stall": "had CPUs stalled in the kernel",
    "kernel.machine-check": "had an uncorrected hardware error (machine check)",
    "kernel.hardware-error-fatal": "had a fatal hardware error",
    "kernel.memory-failure": "was hit by an uncorrected memory error of the hardware",
    "kernel.poison-used": "had an uncorrected memory error of the hardware",
    "kernel.bus-error": "had a fatal error on its PCIe bus[: {device}]",
    "kernel.edac-uncorrected": "had an uncorrected memory error",
    "kernel.hung-task": "was blocked[ for more than {seconds} s][ in {module}]",
    "kernel.nfs-not-responding": "waited for a file server that did not answer[: {server}]",
    "kernel.lustre-lost": "lost its connection to Lustre[: {service}]",
    "kernel.lustre-evicted": "was evicted by Lustre[: {service}]",
    "kernel.lustre-slow": "waited for Lustre, which did not answer in time",
    "kernel.lustre-failed": "had operations fail on Lustre[: {service}]",
    "kernel.lustre-full": "had a full target of Lustre[: {service}]",
    "kernel.lustre-quota": "used up a quota on Lustre[: {service}]",
    "kernel.lustre-bug": "had a fault in Lustre's part of its kernel (LBUG)",
    "kernel.nfs-state-lost": "lost its state on an NFS server[: {server}]",
    "kernel.cifs-not-responding": "waited for a file server that did not answer[: {server}]",
    "kernel.ceph-lost": "lost its connection to Ceph",
    "kernel.ceph-denied": "was refused by Ceph[: {server}]",
    "kernel.beegfs": "had communication errors with BeeGFS",
    "kernel.block-error": "had I/O errors[ on device {device}]",
    "kernel.buffer-error": "had I/O errors[ on device {device}]",
    "kernel.ext4-error": "had file system errors[ on {device}]",
    "kernel.xfs-error": "had file system errors[ on {device}]",
    "kernel.btrfs-error": "had file system errors[ on {device}]",
    "kernel.disk-failed": "had a disk that failed[: {device}]",
    "kernel.journal-aborted": "had file system errors[ on {device}]",
    "kernel.squashfs-error": "could not read an image (SquashFS)",
    "kernel.nvme-lost": "lost its disk[ {device}]",
    "kernel.nvme-timeout": "waited for a disk that did not answer[: {device}]",
    "kernel.thin-full": "had a full storage pool",
    "kernel.ext4-full": "had a full file system[: {device}]",
    "kernel.gpu-bus-lost": "lost a GPU, which fell off the bus[: {gpu}]",
    "kernel.gpu-ecc": "had an uncorrectable memory error in a GPU[: {gpu}]",
    "kernel.gpu-row-remap": "had a GPU with memory that needs a reset or a replacement[: {gpu}]",
    "kernel.gpu-row-failed": "had a GPU whose memory could not be repaired[: {gpu}]",
    "kernel.gpu-nvlink": "had an NVLink failure[ of GPU {gpu}]",
    "kernel.gpu-nvlink-nonfatal": "had errors on an NVLink[ of GPU {gpu}]",
    "kernel.nvswitch": "had an NVSwitch failure[: {switch}]",
    "kernel.gpu-gsp": "had a GPU whose system processor did not answer[: {gpu}]",
    "kernel.gpu-gsp-silent": "had a GPU whose system processor did not answer[: {gpu}]",
    "kernel.gpu-unhealthy": "had a GPU that failed[: {gpu}][, Xid {xid}]",
    "kernel.gpu-context-switch": "had a GPU that did not switch contexts in time[: {gpu}]",
    "kernel.gpu-exception": "had a fault in a program's GPU kernel[ on GPU {gpu}]",
    "kernel.gpu-illegal-access": "had an illegal memory access on a GPU[: {gpu}]",
    "kernel.gpu-kernel-fault": "had a fault in a program's GPU kernel[ on GPU {gpu}]",
    "kernel.amdgpu-page-fault": "had an illegal memory access on a GPU[: {gpu}]",
    "kernel.amdgpu-uncorrected": "had an uncorrectable memory error in a GPU[: {gpu}]",
    "kernel.gpu-not-started": "had a GPU that did not start[: {gpu}]",
    "kernel.gpu-versions": "has a GPU driver of another version than its libraries",
    "kernel.amdgpu-lost": "lost a GPU, which fell off the bus[: {gpu}]",
    "kernel.amdgpu-timeout": "had a GPU that did not answer in time[: {gpu}]",
    "kernel.link-down": "had a network link go down[: {link}][ of {device}]",
    "kernel.link-module": "had a network port without its cable[: {device}]",
    "kernel.adapter-failed": "had a network card that failed[: {device}]",
    "kernel.transmit-timeout": "had a network card that did not send[: {link}]",
    "kernel.bond-down": "had a bonded network link go down[: {link}]",
    "kernel.completion-error": "had errors of RDMA[ on {device}]",
}
# A node is not blocked: a task of it is.
_OF_A_TASK = "had a task blocked[ for more than {seconds} s][ in {module}][: {command}]"
_LIMITS = {
    "task": "the task's", "step": "the step's", "pod": "the pod's", "container": "the container's",
    "user": "the user's", "group": "a cgroup's",
}  # fmt: skip
_LONGEST = 100


def node_words(fault: Fault) -> str | None:
    """What a kernel's sign says, to stand after a node's or a rank's name; None without a sign."""
    facts = dict(fault.facts)
    template = _WORDS.get(facts.get("sign", ""))
    if template is None:
        return None
    if fault.process is None and facts["sign"] == "kernel.hung-task":
        template = _OF_A_TASK
    words, *optional = template.split("[")
    for each in optional:
        part, _, rest = each.partition("]")
        name = part[part.index("{") + 1 : part.index("}")]
        value = facts.get(name)
        words += (part.replace(f"{{{name}}}", value[:_LONGEST]) if value else "") + rest
    return words


def limit_words(fault: Fault) -> str:
    """Whose memory limit was full: "the job's", "the pod's"."""
    return _LIMITS.get(dict(fault.facts).get("limit_of", ""), "the job's")
