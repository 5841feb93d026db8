"""firstfault: which rank of a failed training job failed first, and why."""

__version__ = "0.1.0"
