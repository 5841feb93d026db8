"""Folders named like a host: whose the files in them are.

A folder's name alone names no host: it must be one that the rest of the evidence names.
"""

from __future__ import annotations

from collections.abc import Iterable


def folder_host(name: str, hosts: Iterable[str]) -> str | None:
    """The one of ``hosts`` after which a folder on the path ``name`` is called.

    A folder may bear a host's short name. None where no folder does, or folders of two hosts.
    """
    folders = set(name.split("/")[:-1])
    found = {host for host in hosts if host in folders or short(host) in folders}
    if len({short(host) for host in found}) != 1:
        return None
    return min(found, key=lambda host: (len(host), host))


def short(host: str) -> str:
    """A host's name without its domain: "n1" of "n1.cluster"."""
    return host.partition(".")[0]
