"""The error that is raised for bad input from people or hosts."""


class InputError(ValueError):
    """Input was refused; the message gives the reason. Any other ValueError is a
    bug.
    """
