"""Reads what agents print (docs/wire.md): records, an agent's output, runs of several
agents. Pure.
"""
