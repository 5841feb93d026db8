"""The daemon's wiring: what happens when, and which edge talks to which."""
