"""One `fleet run`: `runner` is the main path; `resume`, `check` and `clean` share its
parts.
"""
