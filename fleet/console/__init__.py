"""What a person sees in a terminal: progress while a session goes, its outcomes, hosts, checks."""
