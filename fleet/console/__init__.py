"""What a person sees in a terminal (floor 7): progress while a session goes, its outcomes, hosts, checks."""
