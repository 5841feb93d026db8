"""From events to runs: which attempt an event belongs to, and whose it is."""
