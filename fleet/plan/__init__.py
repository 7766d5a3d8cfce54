"""Options of a measurement: the table of options, their values, conflicts and what a
plan costs.
"""
