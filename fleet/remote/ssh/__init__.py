"""A host over SSH: everything that knows paramiko and fabric. `connection` is the door."""
