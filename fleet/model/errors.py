"""The error of all that parses what people or hosts wrote."""


class InputError(ValueError):
    """A text or a description that is refused, and why; any other ValueError is a bug."""
