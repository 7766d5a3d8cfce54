"""Gathers facts about a host: its hardware, OS and settings. The functions that parse
are pure.
"""
