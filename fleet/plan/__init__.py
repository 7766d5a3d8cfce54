"""What is asked of a measurement (floor 3): the table of options, their values, conflicts and an estimate."""
