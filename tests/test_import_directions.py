"""Imports go down only: values, then what is pure, then the edges, then the wiring.

Read from the sources with ast, so that an import inside a function counts too.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DAEMON = ROOT / "daemon"
EPILOG = ROOT / "epilog"

# A part may import what has a lower number, and itself. `diagnosis` is the top of what is pure.
STAGES = {
    "model": 0,
    "streams": 1,
    "readers": 1,
    "signatures": 1,
    "runs": 2,
    "faults": 3,
    "judge": 4,
    "report": 1,
    "diagnosis": 5,
}
# They read or write or wait, and know nothing of one another.
EDGES = {"intake", "slurm", "store", "deliver", "web"}
WIRING = {"__main__", "app", "config", "demo", "explain"}

# What reads, writes, waits or asks the clock has no place in what is pure.
IMPURE = frozenset(
    [
        "alembic",
        "asyncio",
        "http",
        "multiprocessing",
        "requests",
        "selectors",
        "signal",
        "socket",
        "sqlalchemy",
        "sqlite3",
        "starlette",
        "subprocess",
        "tempfile",
        "threading",
        "urllib.request",
        "uvicorn",
        "watchdog",
    ]
)


def part(module: str) -> str:
    """ "readers" of "firstfault.readers.sacct"; "" of the package itself."""
    return module.split(".")[1] if "." in module else ""


def modules(root: Path, package: str) -> Iterator[tuple[str, Path]]:
    for path in sorted((root / package).rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        yield name.removesuffix(".__init__"), path


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            module = node.module or ""
            # "from firstfault import config" imports the module firstfault.config.
            yield from (
                f"{module}.{alias.name}" if module == "firstfault" else module
                for alias in node.names
            )


def is_wiring(name: str) -> bool:
    return name in WIRING or name == "cli" or name.startswith("cli_")


def complaint(own: str, other: str) -> str | None:
    """Why a module of part ``own`` may not import part ``other``; None where it may."""
    if other in ("", own, "__version__", "templates") or is_wiring(own):
        return None
    if is_wiring(other):
        return "the wiring is imported by nothing below it"
    if other in EDGES:
        return "edges do not know one another" if own in EDGES else "what is pure knows no edge"
    if own in EDGES or own not in STAGES or other not in STAGES:
        return None
    same = STAGES[own] == STAGES[other] and own != "report" != other
    return None if STAGES[other] < STAGES[own] or same else f"{other} stands above {own}"


SOURCES = [*modules(DAEMON, "firstfault")]


@pytest.mark.parametrize(("name", "path"), SOURCES, ids=[name for name, _ in SOURCES])
def test_a_module_imports_only_what_stands_below_it(name: str, path: Path) -> None:
    wrong = []
    for imported in imports(path):
        if imported.partition(".")[0] == "firstfault":
            said = complaint(part(name), part(imported))
            wrong += [f"{name} imports {imported}: {said}"] if said else []

    assert wrong == []


def test_what_is_pure_imports_nothing_that_reads_writes_or_waits() -> None:
    wrong = [
        f"{name} imports {imported}"
        for name, path in SOURCES
        if part(name) in STAGES
        for imported in imports(path)
        if imported in IMPURE or imported.partition(".")[0] in IMPURE
    ]

    assert wrong == []


def test_every_part_of_the_package_has_its_place() -> None:
    parts = {part(name) for name, _ in SOURCES} - {""}

    assert {p for p in parts if p not in STAGES and p not in EDGES and not is_wiring(p)} == set()


def test_daemon_and_collector_do_not_know_one_another() -> None:
    def names(package: str, other: str) -> list[str]:
        root = DAEMON if package == "firstfault" else EPILOG
        return [
            f"{name} imports {imported}"
            for name, path in modules(root, package)
            for imported in imports(path)
            if imported.partition(".")[0] == other
        ]

    assert names("firstfault", "firstfault_epilog") == []
    assert names("firstfault_epilog", "firstfault") == []


def test_the_collector_needs_nothing_but_the_standard_library() -> None:
    wrong = [
        f"{name} imports {imported}"
        for name, path in modules(EPILOG, "firstfault_epilog")
        for imported in imports(path)
        if imported.partition(".")[0] not in {*sys.stdlib_module_names, "firstfault_epilog"}
    ]

    assert wrong == []


@pytest.mark.parametrize(
    ("own", "other", "fine"),
    [
        ("readers", "model", True),
        ("judge", "faults", True),
        ("faults", "judge", False),
        ("model", "readers", False),
        ("readers", "store", False),
        ("store", "slurm", False),
        ("store", "readers", True),
        ("diagnosis", "judge", True),
        ("judge", "diagnosis", False),
        ("intake", "app", False),
        ("cli_daemon", "app", True),
        ("report", "judge", False),
        ("web", "config", False),
    ],
)
def test_the_directions_are_as_designed(own: str, other: str, fine: bool) -> None:
    assert (complaint(own, other) is None) is fine
