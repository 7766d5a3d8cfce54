"""Build the agent, place it on a host, run it and read its output."""
