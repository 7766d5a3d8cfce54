"""One `fleet run` (floor 6): `runner` is the main path; `resume`, `check` and `clean` share its pieces."""
