"""What the daemon counts as it happens, for /metrics; it begins anew at each start.

docs/metrics.md describes each; a test keeps the page and this together. Labels take few values:
names of channels and workers, and words that stand in the code; never a job, a user or a host.
"""

from __future__ import annotations

from itertools import product

import prometheus_client as prometheus

REGISTRY = prometheus.CollectorRegistry()
NAMESPACE = "firstfault"

# When a counter began is told by the process's own start.
prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]  # it has no annotation
prometheus.ProcessCollector(NAMESPACE, registry=REGISTRY)


def _counter(name: str, help_text: str, *labels: str) -> prometheus.Counter:
    return prometheus.Counter(name, help_text, labels, namespace=NAMESPACE, registry=REGISTRY)


def _histogram(
    name: str, help_text: str, buckets: tuple[float, ...], *labels: str
) -> prometheus.Histogram:
    return prometheus.Histogram(
        name, help_text, labels, namespace=NAMESPACE, registry=REGISTRY, buckets=buckets
    )


RECORDS = _counter(
    "records_total",
    'Evidence records by way ("spool", "push") and result: "stored", "known" (a second copy), '
    '"quarantine", "newer", "unreadable"; pushed ones also "refused".',
    "way",
    "result",
)
SPOOL_LEFT = prometheus.Gauge(
    "spool_left_records",
    'Records that the last scan had to leave in the spool, by reason: "unreadable", "stuck".',
    ("reason",),
    namespace=NAMESPACE,
    registry=REGISTRY,
)
REQUESTS = _counter(
    "intake_requests_total",
    'Requests of nodes, by path (a stranger\'s is "other") and HTTP status.',
    "path",
    "status",
)
REQUEST_SECONDS = _histogram(
    "intake_request_seconds",
    "Seconds from a request's head to its answer.",
    (0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
)
VERDICTS = _counter(
    "verdicts_total",
    "Verdict revisions by the cause's domain and confidence.",
    "domain",
    "confidence",
)
JUDGING_ERRORS = _counter("judging_errors_total", "Jobs on which the diagnosis itself failed.")
JUDGING_SECONDS = _histogram(
    "judging_seconds",
    "Seconds that one look at a job's evidence takes.",
    (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100),
)
DELIVERIES = _counter(
    "deliveries_total",
    'Attempts at deliveries by channel and result: "sent", "failed" (tried again), "given-up".',
    "channel",
    "result",
)
FIRST_DELIVERY_SECONDS = _histogram(
    "first_delivery_seconds",
    "Seconds from a job's last record to its first delivery on a channel.",
    (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600),
    "channel",
)
SLURM_QUESTIONS = _counter(
    "slurm_questions_total", 'Questions to Slurm by result: "answered", "failed".', "result"
)
SLURM_QUESTION_SECONDS = _histogram(
    "slurm_question_seconds",
    "Seconds that a question to Slurm takes.",
    (0.1, 0.3, 1, 3, 10, 30, 60),
)
EVIDENCE_REMOVED = _counter(
    "evidence_removed_total",
    'Evidence records that were removed, by reason: "age", "size" (store.max_evidence_bytes).',
    "reason",
)
JOBS_REMOVED = _counter(
    "jobs_removed_total", "Jobs that were removed with all that belongs to them, by age."
)
WORKER_ERRORS = _counter(
    "worker_errors_total", "Passes that ended in an unexpected error, by worker.", "worker"
)
RELOADS = _counter("reloads_total", 'Readings of the configuration: "done", "refused".', "result")

# A count that begins with its first event looks to Prometheus as if nothing had happened.
for _count, *_words in (
    (RELOADS, ("done", "refused")),
    (SLURM_QUESTIONS, ("answered", "failed")),
    (EVIDENCE_REMOVED, ("age", "size")),
    (RECORDS, ("spool",), ("stored", "known", "quarantine", "newer", "unreadable")),
    (
        VERDICTS,
        ("user", "system", "either"),
        ("confirmed", "likely", "possible", "unknown"),
    ),
):
    for _labels in product(*_words):
        _count.labels(*_labels)


def begin_worker(name: str) -> None:
    """From now on the worker's count is told, while it is 0 as well."""
    WORKER_ERRORS.labels(name)


def begin_channel(name: str) -> None:
    """From now on the channel's counts are told, while they are 0 as well."""
    for result in ("sent", "failed", "given-up"):
        DELIVERIES.labels(name, result)
    FIRST_DELIVERY_SECONDS.labels(name)


def begin_intake() -> None:
    """From now on the counts of what nodes send by HTTP are told, while they are 0 as well."""
    for result in ("stored", "known", "quarantine", "refused"):
        RECORDS.labels("push", result)
    for path, status in product(("/v1/records", "/v1/wanted"), (200, 401, 403)):
        REQUESTS.labels(path, status)


def count_records(way: str, records: int, new: int) -> None:
    """Counts records that the store has taken, of which so many were ``new``."""
    RECORDS.labels(way, "stored").inc(new)
    RECORDS.labels(way, "known").inc(records - new)
