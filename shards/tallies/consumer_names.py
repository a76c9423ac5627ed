"""What single consumers call themselves: the broker keeps a number for each, metrics want the name.

A name is learned from the requests that name a consumer by a text, and kept in memory only: after a
restart it is there again with the first request of that consumer. Lags are with the owner of a
partition and names where the consumer is connected, so figures of all shards are put together.

Always: at most `names_max` names; one more, and the one that was learned first is forgotten.
"""

from typing import Final

from borzoi.protocol.identifiers import Identifier, consumer_number

NAMES_MAX: Final = 10_000


class ConsumerNames:
    """The names that one shard has heard."""

    def __init__(self, names_max: int = NAMES_MAX) -> None:
        """0 where names are not wanted."""
        self._names_max = names_max
        self._names: dict[int, str] = {}

    def number_of(self, consumer: Identifier) -> int:
        """The number of a consumer, whose name is kept if it has one."""
        number = consumer_number(consumer)
        if isinstance(consumer, str) and self._names_max:
            if len(self._names) >= self._names_max and number not in self._names:
                del self._names[next(iter(self._names))]
            self._names[number] = consumer
        return number

    def first(self, names_max: int) -> dict[int, str]:
        """At most so many of them, those learned last first."""
        latest = list(self._names.items())[-names_max:]
        return dict(reversed(latest))
