"""A store of a million failures, for measuring; written past the daemon, counts by SQL.

A year of failures of two clusters of 3,000 nodes: few users, causes and names make most of them.
Each was told of by one message or two; 400 incidents have been, the last of 30,000 jobs.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from firstfault.model import verdict as v
from firstfault.store.database import Database, open_store
from firstfault.store.failure_counts import SPANS
from firstfault.store.failure_tables import INDEXES, failures
from firstfault.store.failures import CONFIDENCES, DOMAINS, packed, words_of
from firstfault.store.names import full
from firstfault.store.schema import jobs
from tests.databases import PostgreSQL, _programs

NOW = dt.datetime(2026, 11, 30, 16, tzinfo=dt.UTC)
YEAR_S = 365 * 86_400
NODES, USERS, ACCOUNTS, FINGERPRINTS, NAMES, INCIDENTS = 3000, 200, 30, 20_000, 5_000, 400
AT_ONCE = 20_000
_DAY_MICRO = 86_400_000_000
_CAUSES = [
    "memory.cgroup-oom",
    "memory.host-oom",
    "memory.gpu-oom",
    "memory.shm",
    "memory.host-alloc",
    "process.segfault",
    "process.abort",
    "process.bus-error",
    "process.fatal-signal",
    "process.killed",
    "process.exit",
    "process.stuck",
    "python.exception",
    "python.import",
    "python.arguments",
    "gpu.illegal-access",
    "gpu.ecc",
    "gpu.bus-lost",
    "gpu.nvlink",
    "gpu.gsp",
    "gpu.unhealthy",
    "gpu.not-visible",
    "collective.timeout",
    "collective.desync",
    "collective.network",
    "collective.config",
    "collective.peer-lost",
    "rendezvous.timeout",
    "rendezvous.connect",
    "storage.full",
    "storage.quota",
    "storage.missing-file",
    "storage.permission",
    "storage.io-error",
    "storage.hang",
    "slurm.time-limit",
    "slurm.cancelled",
    "slurm.preempted",
    "slurm.node-fail",
    "slurm.launch",
    "node.kernel",
    "training.nan",
    "training.checkpoint-mismatch",
    "unknown",
]
_DOMAIN_OF = {
    "gpu": "system",
    "collective": "either",
    "storage": "either",
    "node": "system",
    "unknown": "either",
    "process": "either",
}


class Rows:
    """Rows on their way into a database, by table."""

    def __init__(self, connection: Any, is_postgresql: bool) -> None:
        self._connection = connection
        self._is_postgresql = is_postgresql

    def add(self, table: str, columns: str, rows: Sequence[Sequence[object]]) -> None:
        """Writes rows the fastest way there is."""
        if self._is_postgresql:
            quoted = columns.replace("user", '"user"')
            with (
                self._connection.cursor() as cursor,
                cursor.copy(f"COPY {table} ({quoted}) FROM STDIN") as copy,
            ):
                for row in rows:
                    copy.write_row(row)
            return
        marks = ",".join("?" * len(rows[0]))
        self._connection.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", rows)

    def run(self, statement: str) -> None:
        """Runs one statement."""
        self._connection.execute(statement)


def fill(database: Database, count: int) -> None:
    """Writes ``count`` failures with all that follows from them."""
    postgresql = database.engine.dialect.name == "postgresql"
    with database.engine.begin() as connection:
        for name in INDEXES:
            connection.execute(sa.text(f"DROP INDEX {name}"))
        for index in jobs.indexes:
            index.drop(connection)
    raw = database.engine.raw_connection()
    driver = raw.driver_connection
    assert driver is not None
    rows = Rows(driver, postgresql)
    if not postgresql:
        driver.isolation_level = None
        rows.run("PRAGMA synchronous=OFF")
        rows.run("BEGIN IMMEDIATE")
    rows.run("CREATE TEMP TABLE found_words (word integer, ended_at bigint, failure bigint)")
    rows.run("CREATE TEMP TABLE found_nodes (node integer, ended_at bigint, failure bigint)")
    _write(rows, count)
    for what in ("word", "node"):
        rows.run(
            f"INSERT INTO failure_{what}s SELECT {what}, ended_at, failure FROM found_{what}s "
            f"ORDER BY {what}, ended_at, failure"
        )
    _count(rows)
    _tell(rows)
    if postgresql:
        for table in ("jobs", "verdicts", "names", "nodes", "deliveries", "incidents"):
            last = f"(SELECT max(key) FROM {table})"
            rows.run(f"SELECT setval(pg_get_serial_sequence('{table}', 'key'), {last})")
    driver.commit() if postgresql else rows.run("COMMIT")
    raw.close()
    with database.engine.begin() as connection:
        for index in (*failures.indexes, *jobs.indexes):
            index.create(connection)
    if postgresql:
        with database.engine.connect().execution_options(
            isolation_level="AUTOCOMMIT"
        ) as connection:
            connection.execute(sa.text("VACUUM ANALYZE"))


def _weights(count: int) -> list[float]:
    return [1 / (rank + 3) for rank in range(count)]


def _write(rows: Rows, count: int) -> None:
    of = random.Random(11)
    numbers: dict[str, int] = {}

    def number(kind: str, name: str) -> int:
        return numbers.setdefault(full(kind, name), len(numbers) + 1)

    nodes = [
        (key, "main" if key <= NODES else "small", f"n{key:04d}") for key in range(1, 2 * NODES + 1)
    ]
    seen = _micro(NOW)
    rows.add("nodes", "key, cluster, node, last_record_at", [(*row, seen) for row in nodes])
    body = v.encode(
        v.Verdict(job=v.Job(id="1"), cause=v.Cause("unknown", "x", "either", "unknown"))
    )
    sample = {
        "user": [f"user{i:03d}" for i in range(USERS)],
        "cause": of.sample(_CAUSES, len(_CAUSES)),
        "fingerprint": [f"1:{of.getrandbits(64):016x}" for _ in range(FINGERPRINTS)],
        "name": [f"train-{i % 97}-run{i}" for i in range(NAMES)],
    }
    weights = {kind: _weights(len(words)) for kind, words in sample.items()}
    for start in range(1, count + 1, AT_ONCE):
        keys = range(start, min(start + AT_ONCE, count + 1))
        chosen = {
            kind: of.choices(words, weights[kind], k=len(keys)) for kind, words in sample.items()
        }
        made = [
            _one(of, key, count, {kind: chosen[kind][at] for kind in chosen}, number)
            for at, key in enumerate(keys)
        ]
        rows.add("jobs", _JOB_COLUMNS, [one[0] for one in made])
        rows.add(
            "verdicts",
            "key, job_key, revision, created_at, cause, confidence, fingerprint, body",
            [
                (one[1][0], one[1][0], 1, one[1][1], one[0][-5], one[0][-3], one[4], body)
                for one in made
            ],
        )
        rows.add("failures", _FAILURE_COLUMNS, [one[1] for one in made])
        rows.add(
            "found_nodes",
            "node, ended_at, failure",
            [(node, one[1][1], one[1][0]) for one in made for node in one[2]],
        )
        rows.add(
            "found_words",
            "word, ended_at, failure",
            [(word, one[1][1], one[1][0]) for one in made for word in one[3]],
        )
        print(f"\r{keys[-1]} failures", end="", flush=True)
    print()
    rows.add("names", "key, name", [(key, name) for name, key in numbers.items()])


_JOB_COLUMNS = (
    "key, cluster, job, incarnation, state, nodes_expected, nodes_reported, suspicious, "
    "first_ended_at, last_ended_at, first_seen_at, evidence_revision, facts_revision, "
    "judged_evidence, judged_facts, facts_asked, facts_closed, verdict_revision, posted, "
    "name, user, cause, title, confidence, rank, host"
)
_FAILURE_COLUMNS = (
    "key, ended_at, cluster, cause, domain, confidence, user, account, partition, name, "
    "fingerprint, nodes, node_s, gpu_s, started_at, host, verdict, verdict_revision, "
    "facts_revision, members, words"
)


def _one(
    of: random.Random,
    key: int,
    count: int,
    chosen: dict[str, str],
    number: Callable[[str, str], int],
) -> tuple[tuple[object, ...], tuple[Any, ...], list[int], list[int], str]:
    cause, user, name = chosen["cause"], chosen["user"], chosen["name"]
    domain = _DOMAIN_OF.get(cause.partition(".")[0], "user")
    confidence = "unknown" if cause == "unknown" else of.choice(("confirmed", "likely", "possible"))
    small = of.random() < 0.2
    size = of.choices((1, 2, 4, 8, 16, 64), (30, 25, 20, 15, 9, 1))[0]
    first = of.randrange(1, NODES - size) + small * NODES
    members = list(range(first, first + size))
    host = of.choice(members)
    rank = (host - first) * 8 + of.randrange(8)
    title = f"Rank {rank} on n{host:04d} {cause.partition('.')[2]} after a while of trouble"
    ended = _micro(NOW) - int((count - key) / count * YEAR_S * 1e6) - of.randrange(10**9)
    ran = of.randrange(60, 200_000)
    account = f"account{hash_of(user) % ACCOUNTS:02d}"
    words = sorted({number("word", w) for w in words_of(cause, user, f"n{host:04d}", name, title)})
    job = (
        key, "small" if small else "main", str(key), 1, "delivered", size, size, True,
        ended, ended, ended, 1, 1, 1, 1, 1, True, 1, 1,
        name, user, cause, title, confidence, rank, f"n{host:04d}",
    )  # fmt: skip
    failure = (
        key, ended, number("cluster", str(job[1])), number("cause", cause), DOMAINS[domain],
        CONFIDENCES[confidence], number("user", user), number("account", account),
        number("partition", f"p{of.randrange(10)}"), number("name", name),
        number("fingerprint", chosen["fingerprint"]), size, ran * size, ran * size * 8,
        ended - ran * 10**6, None if cause == "unknown" else host, key, 1, 1,
        packed(members), packed(words),
    )  # fmt: skip
    return job, failure, members, words, chosen["fingerprint"]


def hash_of(user: str) -> int:
    """The same for the same user in every run."""
    return int(user[4:]) * 7919


def _micro(at: dt.datetime) -> int:
    return (at - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


def _count(rows: Rows) -> None:
    rows.run(
        f"INSERT INTO failure_days SELECT ended_at / {_DAY_MICRO}, cluster, cause, domain, "
        "count(*), sum(node_s), sum(gpu_s) FROM failures GROUP BY 1, 2, 3, 4"
    )
    trial = "(f.host IS NOT NULL AND f.domain IN (2, 3))"
    for days in SPANS:
        rows.run(
            f"INSERT INTO node_days SELECT {days}, m.ended_at / {_DAY_MICRO} / {days}, m.node, "
            f"count(*), sum(CASE WHEN {trial} THEN 1 ELSE 0 END), "
            f"sum(CASE WHEN {trial} AND f.host = m.node THEN 1 ELSE 0 END), "
            f"sum(CASE WHEN {trial} AND f.nodes = 1 THEN 1 ELSE 0 END), "
            f"sum(CASE WHEN {trial} THEN 1000000 / f.nodes ELSE 0 END) "
            "FROM found_nodes m JOIN failures f ON f.key = m.failure GROUP BY 1, 2, 3 "
            "ORDER BY 1, 2, 3"
        )
    rows.run(
        'INSERT INTO fingerprint_users SELECT fingerprint, "user", count(*) FROM failures '
        "GROUP BY 1, 2"
    )
    rows.run(
        "INSERT INTO fingerprints SELECT fingerprint, min(ended_at), max(ended_at), count(*), "
        "max(key) FROM failures GROUP BY 1"
    )


def _tell(rows: Rows) -> None:
    """Messages, what is said of nodes, and incidents."""
    for channel, number in (("slack", 0), ("mail", 1)):
        rows.run(
            "INSERT INTO deliveries (key, delivery_id, job_key, revision, channel, state, attempts, "
            f"created_at, sent_at) SELECT key * 2 + {number}, key || '-{channel}-1', key, 1, "
            f"'{channel}', CASE WHEN key % 200003 = 7 THEN 'dead' ELSE 'sent' END, 1, "
            "last_ended_at, last_ended_at + 3000000 FROM jobs "
            f"WHERE {number} = 0 OR key % 2 = 0 ORDER BY key"
        )
    rows.run(
        "INSERT INTO node_incidents (job_key, node, at, role, cause, domain, confidence) "
        "SELECT j.key, j.host, f.ended_at, 'initiator', j.cause, "
        "CASE f.domain WHEN 2 THEN 'system' ELSE 'either' END, j.confidence FROM jobs j "
        "JOIN failures f ON f.key = j.key WHERE f.domain IN (2, 3) AND j.cause <> 'unknown' "
        "ORDER BY j.key"
    )
    newest = "(SELECT max(key) FROM jobs)"
    for key in range(1, INCIDENTS + 1):
        goes_on, size = key > INCIDENTS - 12, 5 + key % 46
        last = f"{newest} - 30000 - {(INCIDENTS - key) * 2000}"
        if key == INCIDENTS:
            size, last = 30_000, newest
        those = f"FROM jobs WHERE key > {last} - {size} AND key <= {last}"
        rows.run(
            "INSERT INTO incidents (key, cluster, kind, name, opened_at, last_at, ended_at) "
            f"SELECT {key}, 'main', '{'cause' if key % 2 else 'node'}', 'n{key:04d}', "
            "min(last_ended_at), max(last_ended_at), "
            f"{'NULL' if goes_on else 'max(last_ended_at)'} {those} HAVING count(*) > 0"
        )
        rows.run(
            f"INSERT INTO incident_jobs (incident_key, job_key) SELECT {key}, key {those} "
            "ORDER BY key"
        )


def add_store_options(options: argparse.ArgumentParser) -> None:
    """The options that `filled` knows."""
    options.add_argument("--failures", type=int, default=1_000_000)
    options.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    options.add_argument("--file", type=Path)
    options.add_argument("--url")


@contextlib.contextmanager
def filled(given: argparse.Namespace) -> Iterator[tuple[Database, str]]:
    """The store that is asked for, and its URL; filled where there is none."""
    with contextlib.ExitStack() as stack:
        if given.url:
            url, is_new = given.url, False
        elif given.database == "postgresql":
            programs = _programs()
            assert programs is not None, "PostgreSQL is not installed"
            server = PostgreSQL(programs)
            stack.callback(server.remove)
            url, is_new = server.create(), True
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            file = given.file or Path(folder) / "board.db"
            url, is_new = f"sqlite:///{file}", not file.exists()
        database = open_store(url)
        stack.callback(database.close)
        if is_new:
            began = time.monotonic()
            fill(database, given.failures)
            print(f"filled in {time.monotonic() - began:.0f} s")
        yield database, url
