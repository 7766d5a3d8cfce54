"""Real hosts for tests: sshds on loopback, faults on the way to them."""
