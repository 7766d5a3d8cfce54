"""Connections to hosts: one interface, implemented by `ssh` and `command`; `connect`
chooses.
"""
