"""Ways to a host (floor 2): one protocol, `ssh` and `local` behind it, `connect` to choose."""
