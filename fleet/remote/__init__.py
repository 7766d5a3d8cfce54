"""Connections to hosts: one protocol, implemented by `ssh` and `command`; `connect` chooses."""
