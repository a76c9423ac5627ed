"""Requests as the page of the first releases has them, byte by byte, and what they mean."""

import struct
from typing import Any, Final

from borzoi.protocol import commands as c
from borzoi.protocol.codes import Code
from borzoi.protocol.identifiers import Consumer, ConsumerKind, PollingStrategy, StrategyKind

PLACE: Final = bytes.fromhex("010404000000") + b"\2\1t"
PLACED: Final = (3, "t")
WHO: Final = struct.pack("<BI", 1, 7)
READER: Final = Consumer(ConsumerKind.CONSUMER, 7)
FROM: Final = struct.pack("<IBQIB", 2, 1, 9, 10, 1)
GROUP: Final = struct.pack("<I", 5)

REQUESTS: Final[dict[Code, tuple[bytes, Any]]] = {
    Code.POLL_MESSAGES: (
        WHO + PLACE + FROM,
        c.PollMessages(READER, *PLACED, 1, PollingStrategy(StrategyKind.OFFSET, 9), 10, True),
    ),
    Code.GET_CONSUMER_OFFSET: (
        WHO + PLACE + struct.pack("<I", 2),
        c.GetConsumerOffset(READER, *PLACED, 1),
    ),
    Code.DELETE_CONSUMER_OFFSET: (
        WHO + PLACE + struct.pack("<I", 2),
        c.DeleteConsumerOffset(READER, *PLACED, 1),
    ),
    Code.STORE_CONSUMER_OFFSET: (
        WHO + PLACE + struct.pack("<IQ", 2, 99),
        c.StoreConsumerOffset(READER, *PLACED, 1, 99),
    ),
    Code.GET_CONSUMER_GROUP: (PLACE + GROUP, c.GetConsumerGroup(*PLACED, 4)),
    Code.DELETE_CONSUMER_GROUP: (PLACE + GROUP, c.DeleteConsumerGroup(*PLACED, 4)),
    Code.JOIN_CONSUMER_GROUP: (PLACE + GROUP, c.JoinConsumerGroup(*PLACED, 4)),
    Code.LEAVE_CONSUMER_GROUP: (PLACE + GROUP, c.LeaveConsumerGroup(*PLACED, 4)),
    Code.CREATE_CONSUMER_GROUP: (PLACE + GROUP, c.CreateConsumerGroup(*PLACED, "5", 4)),
    Code.CREATE_TOPIC: (
        PLACE[:6] + struct.pack("<II", 6, 3) + b"\5topic",
        c.CreateTopic(3, 3, 1, 2**64 - 1, 0, 0, "topic", wanted_id=5),
    ),
}
