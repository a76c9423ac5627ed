"""What single consumers call themselves: GET /consumer-names, for users that may read servers.

The broker keeps a number of each, and the name since it was heard; metrics have it on request only.
"""

from collections.abc import Awaitable, Callable

import msgspec

from borzoi.protocol.codes import Code
from borzoi.shards.metadata.access import require
from borzoi.shards.web_connections.exchange import Exchange
from borzoi.shards.web_forms.failures import plain


class ConsumerNameAnswer(msgspec.Struct, frozen=True):
    """A consumer that has named itself since the last start."""

    consumer: int
    name: str


class HeardNames:
    """Asks all shards."""

    def __init__(self, names: Callable[[], Awaitable[dict[int, str]]]) -> None:
        self._names = names

    async def show(self, one: Exchange) -> list[ConsumerNameAnswer]:
        """The answer to a request. Needs the permission to read servers."""
        require(one.services.metadata.refresh(), one.caller.user, Code.GET_STATS)
        try:
            names = await self._names()
        except TimeoutError:
            raise plain(503, "the names could not be gathered in time") from None
        return [ConsumerNameAnswer(number, name) for number, name in sorted(names.items())]
