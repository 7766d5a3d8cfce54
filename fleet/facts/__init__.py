"""What a host is: commands that ask, and pure functions that read the answers."""
