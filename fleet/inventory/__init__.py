"""Reads inventory.yaml as hosts, and writes a first one from other tools' lists."""
