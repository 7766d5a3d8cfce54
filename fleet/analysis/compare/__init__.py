"""Runs set against runs: sides, tests, verdicts, and what limits them."""
