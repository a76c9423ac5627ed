"""Why a worker does not start."""


class CannotBoot(Exception):
    """Starting again would end the same way; a human has to look."""
