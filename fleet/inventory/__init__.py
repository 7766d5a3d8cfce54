"""inventory.yaml in, hosts out (floor 4): read by `document` and `schema`, chosen by `select`."""
