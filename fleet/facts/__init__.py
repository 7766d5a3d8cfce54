"""What a host is (floor 3): commands that ask, and pure functions that read the answers."""
