"""Polls for 0, 1, 2^31 and 2^32 - 1 messages: every strategy, remembered and not, empty and not.

A count of 0 is answered with the partition and its current offset and no messages, and commits
nothing; the rest of the request is looked at all the same.
"""

import struct
from typing import Final

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.commands import CreateConsumerGroup, JoinConsumerGroup, PollMessages
from borzoi.protocol.commands.offsets import GetConsumerOffset
from borzoi.protocol.errors import InvalidCommand, PartitionNotFound
from borzoi.protocol.generations import encode_command
from borzoi.protocol.identifiers import Consumer, ConsumerKind, PollingStrategy, StrategyKind
from borzoi.protocol.responses.polled import POLLED_HEADER
from tests.broker import BrokerProcess
from tests.topics import make_topic
from tests.wire import Answer, Wire, send_frame

MESSAGES: Final = 5
WRITTEN: Final = 0
EMPTY: Final = 1
COUNTS: Final = {0: 0, 1: 1, 2**31: MESSAGES, 2**32 - 1: MESSAGES}
"""How many messages a poll from the beginning returns, by how many it asks for."""

TAIL_SIZE: Final = 14  # strategy, its value, count, auto-commit


def poll(
    consumer: Consumer, partition: int, kind: StrategyKind, count: int, auto_commit: bool
) -> PollMessages:
    strategy = PollingStrategy(kind, 0)
    return PollMessages(consumer, "counts", "t", partition, strategy, count, auto_commit)


def found_in(answer: Answer) -> tuple[int, int, int]:
    """Partition, current offset and message count."""
    assert answer.status == 0
    partition, current, count = POLLED_HEADER.unpack_from(answer.payload)
    if count == 0:
        assert len(answer.payload) == POLLED_HEADER.size
    return partition, current, count


@pytest.mark.parametrize("kind", ConsumerKind)
def test_every_count_with_every_strategy(shared_broker: BrokerProcess, kind: ConsumerKind) -> None:
    with Wire(shared_broker, login=False) as wire:
        wire.log_in()
        if kind is ConsumerKind.CONSUMER:
            make_topic(wire, "counts", "t", 2)
            wire.put(send_frame("counts", "t", [bytes(100)] * MESSAGES))
            assert wire.answer().status == 0
        else:
            assert wire.answer_to(CreateConsumerGroup("counts", "t", "g")).status == 0
            assert wire.answer_to(JoinConsumerGroup("counts", "t", "g")).status == 0
        consumer = Consumer(kind, 1 if kind is ConsumerKind.CONSUMER else "g")
        for strategy in StrategyKind:
            for auto_commit in (False, True):
                # The first request names a place, the second goes by what is remembered of it.
                for count in (1, 1, 0, 0, 2**31, 0, 2**32 - 1, 0):
                    command = poll(consumer, WRITTEN, strategy, count, auto_commit)
                    found = found_in(wire.answer_to(command))
                    if strategy is StrategyKind.NEXT or count == 0:
                        assert found[:2] == (WRITTEN, MESSAGES - 1), command
                        assert found[2] <= COUNTS[count], command
                    else:
                        assert found == (WRITTEN, MESSAGES - 1, COUNTS[count]), command
                    command = poll(consumer, EMPTY, strategy, count, auto_commit)
                    assert found_in(wire.answer_to(command)) == (EMPTY, 0, 0), command
        assert wire.is_in_step()


def test_the_first_request_of_a_connection_may_ask_for_nothing(
    shared_broker: BrokerProcess,
) -> None:
    with Wire(shared_broker, login=False) as wire:
        wire.log_in()
        make_topic(wire, "first", "t", 1)
        wire.put(send_frame("first", "t", [bytes(100)] * MESSAGES))
        assert wire.answer().status == 0
    for strategy in StrategyKind:
        for auto_commit in (False, True):
            with Wire(shared_broker, login=False) as wire:
                wire.log_in()
                command = PollMessages(
                    Consumer(ConsumerKind.CONSUMER, 7), "first", "t", 0,
                    PollingStrategy(strategy, 0), 0, auto_commit,
                )  # fmt: skip
                assert found_in(wire.answer_to(command)) == (0, MESSAGES - 1, 0)
                # Nothing was returned, so nothing was committed.
                offset = GetConsumerOffset(command.consumer, "first", "t", 0)
                assert wire.answer_to(offset) == Answer(0, b"")


def test_the_rest_of_a_request_for_nothing_is_looked_at(shared_broker: BrokerProcess) -> None:
    with Wire(shared_broker, login=False) as wire:
        wire.log_in()
        make_topic(wire, "looked", "t", 1)
        wire.put(send_frame("looked", "t", [bytes(100)] * MESSAGES))
        assert wire.answer().status == 0
        for partition, status in ((0, 0), (0, 0), (1, PartitionNotFound.status)):
            for count in (1, 0):
                command = PollMessages(
                    Consumer(ConsumerKind.CONSUMER, 1), "looked", "t", partition,
                    PollingStrategy(StrategyKind.OFFSET, 0), count, False,
                )  # fmt: skip
                payload = encode_command(command)
                assert wire.request(Code.POLL_MESSAGES, payload).status == status
                unknown = payload[:-TAIL_SIZE] + struct.pack("<BQIB", 77, 0, count, 0)
                answer = wire.request(Code.POLL_MESSAGES, unknown)
                assert answer.status == InvalidCommand.status
