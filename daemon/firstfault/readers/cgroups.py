"""Whose a cgroup path is: a Slurm job's, a pod's, a container's, a user's.

Paths as their makers build them: Slurm's src/plugins/cgroup; Kubernetes'
pkg/kubelet/cm/pod_container_manager_linux.go (cgroupfs and systemd driver); Docker and podman
("/docker/ID", "docker-ID.scope", "libpod-ID.scope"); systemd's user slices.
"""

from __future__ import annotations

import re

import msgspec

_SLURM = re.compile(
    r"(?:(?P<prefix>[^/]{1,253}_)?slurmstepd\.scope|/slurm(?:_(?P<node>[^/]{1,253}))?/uid_(?P<uid>\d{1,10}))"
    r"/(?:job_(?P<job>\d{1,10})|(?P<sluid>s[0-9A-HJKMNP-TV-Z]{13}))"
    r"(?:/step_(?P<step>\d{1,10}|batch|extern|interactive|TDB)(?:\+\d{1,9})?)?(?:/(?:user|slurm))?"
    r"(?:/task_(?P<task>\d{1,9}|special))?"
)
_POD = re.compile(r"/kubepods(?:[./-]|$)")
_CONTAINER = re.compile(
    r"/(?:docker|containerd|crio|lxc|garden|actions_job)/[^/]"
    r"|/(?:docker|cri-containerd|crio|libpod|nerdctl|containerd)-[0-9a-f]{8,64}(?:\.scope)?(?:/|$)"
)
_USER = re.compile(r"/user\.slice/user-\d{1,10}\.slice")


class SlurmCgroup(msgspec.Struct, frozen=True):
    """A job's place in a cgroup path; ``node`` only from builds with several slurmd a host."""

    node: str | None
    job: str | None
    step: str | None
    task: int | None


def slurm_cgroup(path: str) -> SlurmCgroup | None:
    """The job, step and task in a cgroup path, None where it is not Slurm's."""
    match = _SLURM.search(path)
    if match is None:
        return None
    node = match["node"] or (match["prefix"] or "").rstrip("_").rpartition("/")[2] or None
    task = match["task"]
    return SlurmCgroup(
        node, match["job"], match["step"], int(task) if task and task.isdigit() else None
    )


def limit_of(path: str) -> str:
    """What a cgroup with a limit is: "task", "step", "job", "pod", "container", "user" or "group".

    What lies inside a Slurm job (a container in a step) has the innermost Slurm level.
    """
    slurm = slurm_cgroup(path)
    if slurm is not None:
        if "/task_" in path:
            return "task"
        return "job" if slurm.step is None else "step"
    if _POD.search(path):
        return "pod"
    if _CONTAINER.search(path):
        return "container"
    return "user" if _USER.search(path) else "group"
