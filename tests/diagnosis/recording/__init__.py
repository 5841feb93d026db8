"""How the cases of tests/cases were recorded: real runs with injected faults. See README.md."""
