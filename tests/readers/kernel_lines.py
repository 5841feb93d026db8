"""Kernel logs in their forms, for the tests: from texts to what a tool prints of them."""

from __future__ import annotations

import json
from collections.abc import Callable

REALTIME_US = 1_796_054_185_423_000


def journal_json(texts: list[str], *, host: str = "n4", transport: str = "kernel") -> str:
    """journalctl -o json."""
    return "".join(json.dumps(fields(text, host, transport)) + "\n" for text in texts)


def journal_json_pretty(texts: list[str]) -> str:
    """journalctl -o json-pretty."""
    return "".join(
        json.dumps(fields(text, "n4", "kernel"), indent="\t").replace('": ', '" : ') + "\n"
        for text in texts
    )


def journal_export(texts: list[str]) -> str:
    """journalctl -o export."""
    return "".join(
        "".join(f"{key}={value}\n" for key, value in fields(text, "n4", "kernel").items()) + "\n"
        for text in texts
    )


def dmesg_json(texts: list[str]) -> str:
    """dmesg --json."""
    rows = [{"pri": 6, "time": 1629.472548, "msg": text} for text in texts]
    body = ",".join(
        "{\n" + ",\n".join(f'         "{k}": {json.dumps(v)}' for k, v in row.items()) + "\n      }"
        for row in rows
    )
    return '{\n   "dmesg": [\n      ' + body + "\n   ]\n}\n"


def fields(text: str, host: str, transport: str) -> dict[str, str]:
    """A journal entry's fields."""
    return {
        "__CURSOR": "s=0123;i=1",
        "__REALTIME_TIMESTAMP": str(REALTIME_US),
        "__MONOTONIC_TIMESTAMP": "1629472548",
        "_BOOT_ID": "0123456789abcdef0123456789abcdef",
        "_TRANSPORT": transport,
        "_SOURCE_MONOTONIC_TIMESTAMP": "1629472540",
        "_HOSTNAME": host,
        "PRIORITY": "4",
        "SYSLOG_IDENTIFIER": "kernel",
        "MESSAGE": text,
    }


DOCUMENTS: list[Callable[[list[str]], str]] = [
    journal_json,
    journal_json_pretty,
    journal_export,
    dmesg_json,
]
