"""What all requests have in common but SEND_MESSAGES, whose payload is mostly for the log."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """A command whose fields travel as their annotations say; the table gives it a code.

    A command without fields is no dataclass of its own: each costs half a millisecond at import.
    """

    __slots__ = ()
