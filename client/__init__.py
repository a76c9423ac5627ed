"""A typed asyncio client over the same codecs as the server.

It knows the wire and nothing of the server's other packages.
"""

from borzoi.client.arguments import InvalidArgument
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
