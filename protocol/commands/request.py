"""What all requests have in common but SEND_MESSAGES, whose payload is mostly for the log."""


class Request:
    """A command whose fields travel as their annotations say; the table gives it a code."""

    __slots__ = ()
