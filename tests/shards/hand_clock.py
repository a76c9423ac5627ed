"""A monotonic clock that only a test moves."""


class HandClock:
    """Seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now
