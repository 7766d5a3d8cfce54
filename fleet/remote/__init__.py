"""Connections to hosts: one protocol, implemented by `ssh` and `local`; `connect` chooses."""
