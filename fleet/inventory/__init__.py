"""inventory.yaml in, hosts out: read by `document` and `schema`, chosen by `select`."""
