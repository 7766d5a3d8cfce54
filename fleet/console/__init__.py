"""Output for people in a terminal: a session's progress and outcomes, hosts, checks."""
