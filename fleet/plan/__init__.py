"""What is asked of a measurement (floor 3): options and their words, variants, lists of CPUs, an estimate."""
