"""Prebuilt frames are what the protocol says, and the patched places are the right ones."""

from borzoi.bench.batches import (
    U32,
    U64,
    VARIANTS,
    build_poll_frame,
    build_send_frames,
    group_member,
    single_consumer,
)
from borzoi.bench.quantities import Range
from borzoi.protocol.codes import Code
from borzoi.protocol.commands import PollMessages
from borzoi.protocol.framing import ClassicFraming, Frame
from borzoi.protocol.generations import CLASSIC
from borzoi.protocol.identifiers import (
    Balanced,
    Consumer,
    ConsumerKind,
    PartitionId,
    PollingStrategy,
    StrategyKind,
)
from borzoi.protocol.message import decode_messages
from borzoi.protocol.send_messages import decode_send_messages


def cut(frame: bytearray) -> Frame:
    found = ClassicFraming().cut(memoryview(frame), 0, len(frame))
    assert isinstance(found, Frame)
    return found


def test_a_fixed_batch() -> None:
    (sent,) = build_send_frames(3, 4, 5, Range(100, 100), Range(7, 7), seed=1)
    frame = cut(sent.frame)
    command = decode_send_messages(frame.payload)
    assert frame.code == Code.SEND_MESSAGES
    assert (command.stream, command.topic) == (3, 4)
    assert command.partitioning == PartitionId(5)
    messages = list(decode_messages(command.batch))
    assert [len(message.payload) for message in messages] == [100] * 7
    assert (sent.message_count, sent.user_bytes, sent.total_bytes) == (7, 700, 700 + 7 * 64)


def test_the_patched_places() -> None:
    (sent,) = build_send_frames("stream", "topic", 0, Range(10, 10), Range(2, 2), seed=1)
    assert sent.partition_at is not None
    U32.pack_into(sent.frame, sent.partition_at, 77)
    U64.pack_into(sent.frame, sent.origin_at, 123_456_789)
    command = decode_send_messages(cut(sent.frame).payload)
    assert command.partitioning == PartitionId(77)
    origins = [message.origin_timestamp for message in decode_messages(command.batch)]
    assert origins == [123_456_789, 0]


def test_ranges_give_different_batches_within_them() -> None:
    frames = build_send_frames(1, 1, None, Range(10, 50), Range(2, 9), seed=4)
    assert len(frames) == VARIANTS
    assert len({len(frame.frame) for frame in frames}) > 1
    for frame in frames:
        command = decode_send_messages(cut(frame.frame).payload)
        assert command.partitioning == Balanced()
        assert frame.partition_at is None
        assert 2 <= command.message_count <= 9
        sizes = [len(message.payload) for message in decode_messages(command.batch)]
        assert all(10 <= size <= 50 for size in sizes)
        assert sum(sizes) == frame.user_bytes


def test_the_same_seed_gives_the_same_batches() -> None:
    first, again = (
        build_send_frames(1, 1, 0, Range(10, 50), Range(2, 9), seed=4) for _ in range(2)
    )
    assert [one.frame for one in first] == [one.frame for one in again]


def test_a_poll_of_a_single_consumer_has_46_bytes() -> None:
    poll = build_poll_frame(
        1,
        2,
        3,
        consumer=single_consumer(9),
        strategy=StrategyKind.OFFSET,
        count=1000,
        auto_commit=False,
    )
    U64.pack_into(poll.frame, poll.value_at, 4242)
    command = CLASSIC.requests[Code.POLL_MESSAGES](cut(poll.frame).payload)
    assert len(poll.frame) == 46
    assert isinstance(command, PollMessages)
    assert command.strategy == PollingStrategy(StrategyKind.OFFSET, 4242)
    assert command.consumer == Consumer(ConsumerKind.CONSUMER, 9)
    assert (command.partition_id, command.count, command.auto_commit) == (3, 1000, False)


def test_a_poll_of_a_group_member_names_no_partition() -> None:
    poll = build_poll_frame(
        1,
        2,
        None,
        consumer=group_member(0),
        strategy=StrategyKind.NEXT,
        count=10,
        auto_commit=True,
    )
    command = CLASSIC.requests[Code.POLL_MESSAGES](cut(poll.frame).payload)
    assert isinstance(command, PollMessages)
    assert command.consumer == Consumer(ConsumerKind.GROUP, 0)
    assert command.partition_id is None
    assert command.strategy.kind is StrategyKind.NEXT
    assert command.auto_commit
