"""A range of offsets as runs of raw messages, over TCP.

Polls name their offset and count, commit nothing and belong to no group. So the same range gives
the same bytes however often it is read. One poll is sent ahead of the answer to the one before: the
broker collects bytes while this side turns others into columns.

Always: the runs of a range are contiguous, begin with its first offset and end before its end.
Where offsets are missing the caller's rule for lost data decides.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from borzoi.protocol.batch import first_bad_message, sent_index
from borzoi.protocol.codes import Code
from borzoi.protocol.commands import PollMessages
from borzoi.protocol.errors import PartitionNotFound, StreamIdNotFound, TopicIdNotFound
from borzoi.protocol.generations import encode_command
from borzoi.protocol.identifiers import (
    Consumer,
    ConsumerKind,
    Identifier,
    PollingStrategy,
    StrategyKind,
)
from borzoi.protocol.message import OFFSET_AT, TIMESTAMP_AT
from borzoi.protocol.payload import U64
from borzoi.protocol.responses.polled import NOTHING_POLLED, POLLED_HEADER
from borzoi.spark.failures import DataLoss, IggyError
from borzoi.spark.options import Access
from borzoi.spark.positions import Range, RowTime
from borzoi.spark.wire import BROKEN, Patience, Wire, borrowed, repeated

LOG: Final = logging.getLogger(__name__)
RUN_SIZE: Final = 2 * 1024 * 1024  # what a poll should bring, in bytes
FIRST_COUNT: Final = 1000  # while the size of the messages is not known
NO_CONSUMER: Final = Consumer(ConsumerKind.CONSUMER, 0)
SHORT_ANSWERS_MAX: Final = 3
GONE: Final = (StreamIdNotFound, TopicIdNotFound, PartitionNotFound)


@dataclass(frozen=True, slots=True)
class Polling:
    """How a range is read, whichever range it is."""

    access: Access
    stream: Identifier
    count_max: int
    fail_on_data_loss: bool
    verify_checksums: bool = False


class Run(NamedTuple):
    """Messages back to back: their bytes, index entries with where each one ends, and count."""

    messages: memoryview
    entries: bytearray
    message_count: int
    first_offset: int


def runs_of(polling: Polling, wanted: Range) -> Iterator[Run]:
    """Every message of the range. A broken connection is made again and reading goes on."""
    patience = Patience(polling.access)
    at = wanted.begin
    while at < wanted.end:
        try:
            with borrowed(polling.access) as wire:
                for run in _over(wire, polling, wanted, at):
                    patience.reset()
                    if polling.verify_checksums:
                        _verify(run, wanted)
                    yield run
                    at = run.first_offset + run.message_count
                return
        except BROKEN as error:
            patience.wait(error)
        except GONE as error:
            lost(wanted, at, wanted.end, f"{error}", polling.fail_on_data_loss)
            return


def row_of(polling: Polling, wanted: Range) -> bytes | None:
    """The first row of the range as it lies in the broker; None if the broker does not have it."""
    run = _cut(_answer_at(polling, wanted), wanted._replace(end=wanted.begin + 1))
    if run is None or run.first_offset != wanted.begin:
        return None
    return bytes(run.messages)


def first_row(polling: Polling, wanted: Range) -> RowTime | None:
    """The first row at or behind the beginning of the range; None if the broker has none."""
    payload = _answer_at(polling, wanted)
    _, _, count = POLLED_HEADER.unpack_from(payload)
    if count == 0:
        return None
    messages = payload[POLLED_HEADER.size :]
    return RowTime(
        U64.unpack_from(messages, OFFSET_AT)[0], U64.unpack_from(messages, TIMESTAMP_AT)[0]
    )


def _answer_at(polling: Polling, wanted: Range) -> memoryview:
    """What the broker says to a poll for the first row of the range; nothing if it is gone."""
    first = wanted._replace(end=wanted.begin + 1)

    def answer(wire: Wire) -> memoryview:
        _send_poll(wire, polling.stream, first, first.begin, 1)
        return memoryview(wire.receive())

    try:
        return repeated(polling.access, answer)
    except GONE:
        return memoryview(NOTHING_POLLED)


def next_count(run: Run, count_max: int) -> int:
    """How many messages a poll should ask for, by the size of those that came."""
    mean = max(1, len(run.messages) // run.message_count)
    return max(1, min(count_max, RUN_SIZE // mean))


def lost(wanted: Range, begin: int, end: int, why: str, fail: bool) -> None:
    """An error, or one line in the log, as the user wants it."""
    text = (
        f"rows {begin} to {end - 1} of partition {wanted.partition} of topic {wanted.topic}"
        f" cannot be read: {why}"
    )
    if fail:
        raise DataLoss(f"{text}. With failOnDataLoss=false they are left out")
    LOG.warning("%s: %s; they are left out", DataLoss.code, text)


def _over(wire: Wire, polling: Polling, wanted: Range, at: int) -> Iterator[Run]:
    """As runs_of(), over one connection."""
    stream, fail = polling.stream, polling.fail_on_data_loss
    count = min(polling.count_max, FIRST_COUNT)
    ahead: tuple[int, int] | None = None  # offset and count of the poll that is on its way
    short_answers = 0
    while at < wanted.end:
        if ahead is None:
            ahead = _send_poll(wire, stream, wanted, at, count)
        asked_at, asked_count = ahead
        # The next poll is on its way before this answer is looked at. If the answer is shorter
        # than what was asked for, the next one leaves a hole, and is asked again.
        after = asked_at + asked_count
        following = _send_poll(wire, stream, wanted, after, count) if after < wanted.end else None
        run = _cut(memoryview(wire.receive()), wanted)
        ahead = following
        if run is None or run.first_offset + run.message_count <= at:
            short_answers += 1
            if short_answers > SHORT_ANSWERS_MAX:
                lost(wanted, at, wanted.end, "the partition does not hold them", fail)
                if following is not None:
                    wire.receive()
                return
        else:
            short_answers = 0
            if run.first_offset > at:
                lost(wanted, at, run.first_offset, "they were deleted", fail)
            yield run
            at = run.first_offset + run.message_count
            count = next_count(run, polling.count_max)
        if following is not None and at != after:
            wire.receive()
            ahead = None


def _send_poll(
    wire: Wire, stream: Identifier, wanted: Range, offset: int, count: int
) -> tuple[int, int]:
    count = min(count, wanted.end - offset)
    command = PollMessages(
        consumer=NO_CONSUMER,
        stream=stream,
        topic=wanted.topic,
        partition_id=wanted.partition,
        strategy=PollingStrategy(StrategyKind.OFFSET, offset),
        count=count,
        auto_commit=False,
    )
    wire.send(Code.POLL_MESSAGES, encode_command(command))
    return offset, count


def _cut(payload: memoryview, wanted: Range) -> Run | None:
    """The messages of an answer that belong to the range; None when there are none."""
    _, _, count = POLLED_HEADER.unpack_from(payload)
    messages = payload[POLLED_HEADER.size :]
    if count == 0:
        return None
    first_offset: int = U64.unpack_from(messages, OFFSET_AT)[0]
    kept = min(count, wanted.end - first_offset)
    if kept <= 0:
        # All that was asked for is gone, and what came lies behind the range.
        return None
    index = sent_index(messages, kept)
    end = int.from_bytes(index[-12:-8], "little")
    return Run(messages[:end], index, kept, first_offset)


def _verify(run: Run, wanted: Range) -> None:
    bad = first_bad_message(run.messages, run.message_count, run.first_offset)
    if bad is not None:
        raise IggyError(
            f"message {bad} of partition {wanted.partition} of topic {wanted.topic} is damaged"
        )
