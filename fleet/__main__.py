"""`python -m fleet`: the same program as the `fleet` command. Started processes import it and run nothing."""

from fleet.cli import main

if __name__ == "__main__":
    main()
