"""Ranges over TCP: short answers, holes, ends, broken connections. The broker is a list."""

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.client.address import Login, ServerAddress
from borzoi.protocol.codes import Code
from borzoi.protocol.errors import TopicIdNotFound
from borzoi.protocol.message import Message, decode_messages
from borzoi.protocol.plain_requests import POLL_TAIL
from borzoi.protocol.responses.polled import PolledMessages, encode_polled_messages
from borzoi.spark import polling, wire
from borzoi.spark.failures import DataLoss, IggyError, Unreachable
from borzoi.spark.options import Access
from borzoi.spark.polling import RUN_SIZE, Polling, Run, next_count, row_of, runs_of
from borzoi.spark.positions import Range

ACCESS = Access(ServerAddress("h", 1, Login("u", "p")), None, 1.0, 2, 0.0)


class ListedPartition:
    """Offsets from `first` up to `next`, in answers of at most `answer_max` messages."""

    def __init__(self, first: int, next: int, answer_max: int = 1000) -> None:
        self.first, self.next, self.answer_max = first, next, answer_max
        self.breaks: set[int] = set()  # which answers are a broken connection instead
        self.error: Exception | None = None
        self.polls: list[tuple[int, int]] = []
        self.answers = 0
        self.unanswered = 0  # when a connection was given back

    def answer(self, offset: int, count: int) -> bytes:
        self.answers += 1
        if self.answers in self.breaks:
            raise ConnectionResetError("broken")
        if self.error is not None:
            raise self.error
        begin = max(self.first, offset)
        end = min(self.next, begin + min(count, self.answer_max))
        messages = tuple(Message(b"m%d" % at, offset=at) for at in range(begin, end))
        return encode_polled_messages(PolledMessages(0, max(0, self.next - 1), messages))


class ListedWire:
    def __init__(self, partition: ListedPartition) -> None:
        self._partition = partition
        self._asked: deque[tuple[int, int]] = deque()

    def send(self, code: int, *payload: bytes) -> None:
        assert code == Code.POLL_MESSAGES
        _, offset, count, auto_commit = POLL_TAIL.unpack(b"".join(payload)[-POLL_TAIL.size :])
        assert not auto_commit
        self._asked.append((offset, count))
        self._partition.polls.append((offset, count))

    def receive(self) -> bytearray:
        return bytearray(self._partition.answer(*self._asked.popleft()))

    @property
    def unanswered(self) -> int:
        return len(self._asked)


@pytest.fixture
def patched() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def use(patch: pytest.MonkeyPatch, partition: ListedPartition) -> None:
    @contextmanager
    def borrowed(_access: Access) -> Iterator[ListedWire]:
        one = ListedWire(partition)
        yield one
        partition.unanswered += one.unanswered

    patch.setattr(polling, "borrowed", borrowed)
    patch.setattr(wire, "borrowed", borrowed)


def read(
    partition: ListedPartition, begin: int, end: int, *, fail: bool = True, count_max: int = 7
) -> list[int]:
    """The offsets that are read, in the order in which they come."""
    with pytest.MonkeyPatch.context() as patch:
        use(patch, partition)
        how = Polling(ACCESS, "s", count_max, fail)
        found = []
        for run in runs_of(how, Range("t", 0, begin, end)):
            offsets = [one.offset for one in decode_messages(run.messages)]
            assert offsets == list(range(run.first_offset, run.first_offset + run.message_count))
            found += offsets
    assert partition.unanswered == 0, "an answer is left for the next who uses the connection"
    return found


@given(
    first=st.integers(0, 40),
    held=st.integers(0, 60),
    begin=st.integers(0, 60),
    rows=st.integers(0, 60),
    answer_max=st.integers(1, 9),
    count_max=st.integers(1, 9),
    breaks=st.sets(st.integers(1, 30), max_size=2),
)
def test_a_range_is_what_the_partition_holds_of_it(
    first: int, held: int, begin: int, rows: int, answer_max: int, count_max: int, breaks: set[int]
) -> None:
    partition = ListedPartition(first, first + held, answer_max)
    partition.breaks = breaks
    found = read(partition, begin, begin + rows, fail=False, count_max=count_max)
    assert found == list(range(max(begin, first), min(begin + rows, first + held)))


@given(first=st.integers(0, 9), next=st.integers(0, 40), begin=st.integers(0, 20))
def test_with_fail_on_data_loss_it_is_all_or_an_error(first: int, next: int, begin: int) -> None:
    partition = ListedPartition(first, max(first, next))
    if first <= begin and begin + 10 <= next:
        assert read(partition, begin, begin + 10) == list(range(begin, begin + 10))
    else:
        with pytest.raises(DataLoss, match="cannot be read"):
            read(partition, begin, begin + 10)


def test_one_poll_is_ahead_and_none_goes_beyond_the_end() -> None:
    partition = ListedPartition(0, 100)
    assert read(partition, 3, 30, count_max=10) == list(range(3, 30))
    assert partition.polls == [(3, 10), (13, 10), (23, 7)]


def test_a_hole_is_logged_with_its_rows(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert read(ListedPartition(5, 20), 2, 10, fail=False) == [5, 6, 7, 8, 9]
    assert "IGGY_DATA_LOSS: rows 2 to 4 of partition 0 of topic t" in caplog.text
    with pytest.raises(DataLoss, match=r"rows 2 to 4 .* they were deleted"):
        read(ListedPartition(5, 20), 2, 10)


def test_a_topic_that_is_gone_is_lost_data() -> None:
    partition = ListedPartition(0, 10)
    partition.error = TopicIdNotFound("t")
    with pytest.raises(DataLoss):
        read(partition, 0, 10)
    assert read(partition, 0, 10, fail=False) == []


def test_patience_has_an_end() -> None:
    partition = ListedPartition(0, 10)
    partition.breaks = set(range(1, 100))
    with pytest.raises(Unreachable, match="after 3 attempts: broken"):
        read(partition, 0, 10)


def test_damage_on_the_way_is_noticed(patched: pytest.MonkeyPatch) -> None:
    use(patched, ListedPartition(0, 10))  # whose checksums are 0
    how = Polling(ACCESS, "s", 10, fail_on_data_loss=True, verify_checksums=True)
    with pytest.raises(IggyError, match="message 4 of partition 0 of topic t is damaged"):
        list(runs_of(how, Range("t", 0, 4, 8)))


def test_a_single_row_is_found_or_not(patched: pytest.MonkeyPatch) -> None:
    partition = ListedPartition(5, 10)
    use(patched, partition)
    how = Polling(ACCESS, "s", 10, fail_on_data_loss=True)
    row = row_of(how, Range("t", 0, 6, 9))
    assert row is not None
    assert [one.offset for one in decode_messages(memoryview(row))] == [6]
    assert row_of(how, Range("t", 0, 4, 9)) is None
    assert row_of(how, Range("t", 0, 10, 12)) is None
    partition.error = TopicIdNotFound("t")
    assert row_of(how, Range("t", 0, 6, 9)) is None


@given(count=st.integers(1, 5000), size=st.integers(65, 4_000_000), count_max=st.integers(1, 9000))
def test_polls_ask_for_about_one_run(count: int, size: int, count_max: int) -> None:
    run = Run(memoryview(b"x").cast("B"), bytearray(), 1, 0)._replace(message_count=count)
    sized = run._replace(messages=SizedMemory(count * size))  # type: ignore[arg-type]  # its length
    asked = next_count(sized, count_max)
    assert 1 <= asked <= count_max
    assert asked == 1 or asked * size <= RUN_SIZE


class SizedMemory:
    """As long as memory that a test does not need to have."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size
