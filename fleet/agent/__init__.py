"""Our half of the talk with the agent (floor 3): build it, place it, run it, read what it says."""
