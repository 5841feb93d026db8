"""What may have gone wrong first in a run, and what only followed from it."""
