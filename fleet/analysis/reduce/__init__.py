"""From raw samples to numbers: load, then bursts, pairs and matrices; levels, flags and topology."""
