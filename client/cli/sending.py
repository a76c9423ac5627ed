"""Messages on their way to one topic: in batches of bounded count and size, counted.

Always: a batch has at most BATCH_MESSAGES messages and about BATCH_SIZE bytes, or one message.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from borzoi.client.client import BorzoiClient
from borzoi.client.outgoing import Outgoing
from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.message import Message

BATCH_MESSAGES: Final = 1_000
BATCH_SIZE: Final = 1024 * 1024
HEADER_SIZE: Final = 64


@dataclass(frozen=True, slots=True)
class Sent:
    """What was sent; lines without a byte cannot be messages."""

    messages: int
    empty_lines: int = 0

    @property
    def message(self) -> str:
        """The sentence about it."""
        said = f"{self.messages} {'message is' if self.messages == 1 else 'messages are'} sent"
        if self.empty_lines:
            lines = "line is" if self.empty_lines == 1 else "lines are"
            said += f", {self.empty_lines} empty {lines} left out"
        return said


class TopicSender:
    """One topic, and what has gone there so far."""

    def __init__(
        self,
        client: BorzoiClient,
        stream: Identifier,
        topic: Identifier,
        partition_id: int | None,
        key: str | None,
    ) -> None:
        self._client = client
        self._place = (stream, topic)
        self._partition_id = partition_id
        self._key = key
        self.sent_count = 0
        self.empty_count = 0

    async def send_lines(self, lines: Sequence[bytes], user_headers: bytes) -> None:
        """Sends lines, and leaves out those that are empty."""
        messages: list[Outgoing] = [line for line in lines if line]
        if user_headers:
            messages = [Message(line, user_headers=user_headers) for line in lines if line]
        self.empty_count += len(lines) - len(messages)
        await self.send(messages)

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Returns when all of them are acknowledged."""
        batch: list[Outgoing] = []
        size = 0
        for one in messages:
            one_size = HEADER_SIZE + (len(one.payload) if isinstance(one, Message) else len(one))
            if batch and (len(batch) == BATCH_MESSAGES or size + one_size > BATCH_SIZE):
                await self._send_batch(batch)
                batch, size = [], 0
            batch.append(one)
            size += one_size
        if batch:
            await self._send_batch(batch)

    async def _send_batch(self, batch: list[Outgoing]) -> None:
        stream, topic = self._place
        await self._client.send_messages(
            stream, topic, batch, partition_id=self._partition_id, key=self._key
        )
        self.sent_count += len(batch)


async def lingering(
    chunks: AsyncIterator[list[bytes]], linger_s: float
) -> AsyncIterator[list[bytes]]:
    """Chunks joined while they are small, for `linger_s` from the first line at most."""
    coming = asyncio.ensure_future(anext(chunks, None))
    while (gathered := await coming) is not None:
        deadline = asyncio.get_running_loop().time() + linger_s
        coming = asyncio.ensure_future(anext(chunks, None))
        while len(gathered) < BATCH_MESSAGES and sum(map(len, gathered)) < BATCH_SIZE:
            left_s = deadline - asyncio.get_running_loop().time()
            done, _ = await asyncio.wait((coming,), timeout=max(0.0, left_s))
            if not done:
                break
            more = coming.result()
            if more is None:
                break
            gathered += more
            coming = asyncio.ensure_future(anext(chunks, None))
        yield gathered
