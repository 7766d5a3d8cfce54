"""Ask a host what it is, with pure functions that parse the answers."""
