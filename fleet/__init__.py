"""Measure core-to-core latency on a fleet of machines over SSH, and keep the raw samples."""

__version__ = "0.1.0"
