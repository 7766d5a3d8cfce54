"""What is asked of a measurement: the table of options, their values, conflicts and an estimate."""
