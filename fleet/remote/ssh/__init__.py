"""Connects to a host over SSH: everything that imports paramiko and fabric. Start with
`connection`.
"""
