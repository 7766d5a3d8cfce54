"""`python -m fleet`: the same program as the `fleet` command."""

from fleet.cli import main

main()
