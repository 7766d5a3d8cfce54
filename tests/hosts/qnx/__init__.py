"""Stand-ins for QNX: a software development platform to build with, and hosts to reach.
None is QNX.
"""
