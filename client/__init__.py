"""A typed asyncio client over the same codecs as the server.

It knows the wire and nothing of the server's other packages. What is named here is imported when
it is first asked for: the processes of Spark start by the dozen, and need the addresses only.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from borzoi.client.arguments import InvalidArgument
    from borzoi.client.blocking import BlockingClient
    from borzoi.client.client import BorzoiClient
    from borzoi.client.committing import (
        COMMIT_AFTER_EACH,
        COMMIT_DISABLED,
        COMMIT_ON_CLOSE,
        COMMIT_ON_POLL,
        CommitPolicy,
        commit_after,
        commit_every,
    )
    from borzoi.client.connection import Connection, RequestTimeout
    from borzoi.client.consumer import MessageConsumer
    from borzoi.client.delivery import Delivery, DeliveryFailed, LostBatch
    from borzoi.client.idling import Idling
    from borzoi.client.outgoing import Outgoing, new_message
    from borzoi.client.producer import Producer
    from borzoi.client.reconnect import Reconnect
    from borzoi.client.reply_reader import RawReply, ResponseTooBig
    from borzoi.client.strategies import FIRST, LAST, NEXT, from_offset, from_timestamp

__all__ = [
    "COMMIT_AFTER_EACH",
    "COMMIT_DISABLED",
    "COMMIT_ON_CLOSE",
    "COMMIT_ON_POLL",
    "FIRST",
    "LAST",
    "NEXT",
    "BlockingClient",
    "BorzoiClient",
    "CommitPolicy",
    "Connection",
    "Delivery",
    "DeliveryFailed",
    "Idling",
    "InvalidArgument",
    "LostBatch",
    "MessageConsumer",
    "Outgoing",
    "Producer",
    "RawReply",
    "Reconnect",
    "RequestTimeout",
    "ResponseTooBig",
    "commit_after",
    "commit_every",
    "from_offset",
    "from_timestamp",
    "new_message",
]

HOMES: Final = {
    "InvalidArgument": "arguments",
    "BlockingClient": "blocking",
    "BorzoiClient": "client",
    "COMMIT_AFTER_EACH": "committing",
    "COMMIT_DISABLED": "committing",
    "COMMIT_ON_CLOSE": "committing",
    "COMMIT_ON_POLL": "committing",
    "CommitPolicy": "committing",
    "commit_after": "committing",
    "commit_every": "committing",
    "Connection": "connection",
    "RequestTimeout": "connection",
    "MessageConsumer": "consumer",
    "Delivery": "delivery",
    "DeliveryFailed": "delivery",
    "LostBatch": "delivery",
    "Idling": "idling",
    "Outgoing": "outgoing",
    "new_message": "outgoing",
    "Producer": "producer",
    "Reconnect": "reconnect",
    "RawReply": "reply_reader",
    "ResponseTooBig": "reply_reader",
    "FIRST": "strategies",
    "LAST": "strategies",
    "NEXT": "strategies",
    "from_offset": "strategies",
    "from_timestamp": "strategies",
}


def __getattr__(name: str) -> Any:
    home = HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
