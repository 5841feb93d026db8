"""`python -m firstfault`: the same as the command."""

from firstfault.cli import main

main(prog_name="firstfault")
