"""What writers were promised and what readers saw, and whether the two agree: the checker.

A message has an id that is used once, and the offset that its writer gave it. Whatever is seen or
promised is noted when it happens; `problems` says what cannot be true of a log.
"""

from collections.abc import Mapping


class History:
    """Everything that was submitted, answered and seen of one log."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.stored_count = 0
        self.refused: set[int] = set()
        self._submitted: dict[int, tuple[int, int]] = {}
        self._stored: dict[int, int] = {}
        self._seen_at: dict[int, int] = {}
        self._seen_where: dict[int, int] = {}
        self._highest = -1

    def submitted(self, message: int, offset: int) -> None:
        """A writer sends a message for this offset."""
        self._submitted[message] = offset, self._highest

    def stored(self, message: int) -> None:
        """The message is acknowledged."""
        offset, highest = self._submitted[message]
        if offset <= highest:
            self._wrong(f"reordered: {message} at {offset}, sent after {highest} was acknowledged")
        self.stored_count += 1
        self._highest = max(self._highest, offset)
        self._stored[message] = offset
        self.seen(message, offset)

    def not_stored(self, message: int) -> None:
        """The message is refused."""
        self.refused.add(message)
        if message in self._seen_where:
            self._wrong(f"refused but there: {message}")

    def seen(self, message: int, offset: int) -> None:
        """A copy of the log has the message at this offset."""
        other = self._seen_at.setdefault(offset, message)
        if other != message:
            self._wrong(f"reordered: {message} and {other} at offset {offset}")
        where = self._seen_where.setdefault(message, offset)
        if where != offset:
            self._wrong(f"twice: {message} at {where} and {offset}")
        if message in self.refused:
            self._wrong(f"refused but there: {message}")

    def wrong(self, what: str) -> None:
        """Something that cannot be, seen elsewhere."""
        self._wrong(what)

    def ends_with(self, log: Mapping[int, int], dropped: int, end: int) -> None:
        """The log at the end: messages by offset, from the first that was not dropped on."""
        for offset, message in log.items():
            self.seen(message, offset)
        for message, offset in self._stored.items():
            if offset >= end or (offset >= dropped and log.get(offset) != message):
                self._wrong(f"lost: {message} at {offset}")
        for offset in range(dropped, end):
            if offset not in log:
                self._wrong(f"lost: nothing at {offset}")

    def _wrong(self, what: str) -> None:
        self.problems.append(what)
