"""The collector: what runs on a compute node. Standard library only, Python 3.6 and later."""

__version__ = "0.1.0"
