"""The pages of the dashboard: a module for each, with its places."""
