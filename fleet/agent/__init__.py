"""Our half of the talk with the agent: build it, place it, run it, read what it says."""
