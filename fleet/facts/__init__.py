"""Gathers the facts of a host: its hardware, OS and settings. The functions that parse are pure."""
