"""Comparing runs: the sides, the statistical tests, verdicts and warnings."""
