"""Every operation, and what is none."""

from typing import Any

import pytest

from borzoi.protocol import commands as c
from borzoi.protocol.codes import Code, LaterCode
from borzoi.protocol.consensus.codecs import CODECS
from borzoi.protocol.consensus.evictions import Reason
from borzoi.protocol.consensus.operations import OPERATIONS
from borzoi.protocol.errors import (
    InvalidCommand,
    InvalidFormat,
    OptionsBlockTooLarge,
    StreamNameAlreadyExists,
)
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from tests.consensus_wire import ConsensusWire
from tests.wire import Answer

GROUP = Consumer(ConsumerKind.GROUP, "g")


def test_every_operation(wire: ConsensusWire) -> None:  # noqa: PLR0915 - a line for each
    """What one makes another uses, the last ones delete."""
    answered: set[int] = set()

    def ask(command: Any) -> Any:
        answered.add(next(code for code, one in CODECS.items() if one.command is type(command)))
        return wire.ask(command)

    stream = ask(c.CreateStream("all"))
    ask(c.UpdateStream("all", "every"))
    topic = ask(c.CreateTopic("every", 2, 1, 0, 0, 0, "t"))
    assert (topic.topic.partitions_count, len(topic.partitions)) == (2, 2)
    ask(c.UpdateTopic("every", "t", -1, -1, -1, -1, "topic"))
    ask(c.CreatePartitions("every", "topic", 2))
    ask(c.DeletePartitions("every", "topic", 1))
    assert ask(c.GetTopic("every", "topic")).topic.partitions_count == 3
    assert [one.name for one in ask(c.GetTopics("every"))] == ["topic"]
    assert ask(c.GetTopics("missing")) == ()
    assert ask(c.GetStream("every")).topics[0].name == "topic"
    assert ask(c.GetStream("missing")) is None
    assert "every" in [one.name for one in ask(c.GetStreams())]
    wire.append("every", "topic", 1, [b"a", b"b"])
    ask(c.FlushUnsavedBuffer("every", "topic", 1, True))
    who = Consumer(ConsumerKind.CONSUMER, 7)
    ask(c.StoreConsumerOffset(who, "every", "topic", 1, 1))
    assert ask(c.GetConsumerOffset(who, "every", "topic", 1)).stored_offset == 1
    ask(c.DeleteConsumerOffset(who, "every", "topic", 1))
    assert ask(c.GetConsumerOffset(who, "every", "topic", 1)) is None
    group = ask(c.CreateConsumerGroup("every", "topic", "g"))
    ask(c.JoinConsumerGroup("every", "topic", "g"))
    assert sorted(ask(c.SyncConsumerGroup("every", "topic", "g")).partitions) == [0, 1, 2]
    assert ask(c.GetConsumerGroup("every", "topic", "g")).group.members_count == 1
    assert ask(c.GetConsumerGroups("every", "topic"))[0].id == group.id
    ask(c.LeaveConsumerGroup("every", "topic", "g"))
    ask(c.DeleteConsumerGroup("every", "topic", "g"))
    ask(c.DeleteSegments("every", "topic", 1, 1))
    user = ask(c.CreateUser("newcomer", "password"))
    ask(c.UpdateUser("newcomer", "another"))
    ask(c.UpdatePermissions("another", None))
    ask(c.ChangePassword("another", "password", "new one"))
    assert ask(c.GetUser("another")).user.id == user.user.id
    assert "another" in [one.username for one in ask(c.GetUsers())]
    ask(c.DeleteUser("another"))
    token = ask(c.CreatePersonalAccessToken("token", 0))
    assert [one.name for one in ask(c.GetPersonalAccessTokens())] == ["token"]
    assert ask(c.Ping()) is None
    assert ask(c.GetStats()).streams_count >= 1
    assert ask(c.GetSnapshot(c.SnapshotCompression.STORED, (c.SnapshotType.TEST,)))
    assert len(ask(c.GetClusterMetadata()).nodes) == 1
    me = ask(c.GetMe())
    assert ask(c.GetClient(me.client.client_id)) == me
    assert me.client.client_id in [one.client_id for one in ask(c.GetClients())]
    assert len(ask(c.DescribeOptions(c.OptionScope.TOPIC))) == 9
    assert ask(c.DescribeOptions(c.OptionScope.USER)) == ()
    ask(c.DeletePersonalAccessToken("token"))
    ask(c.PurgeTopic("every", "topic"))
    ask(c.PurgeStream("every"))
    ask(c.DeleteTopic("every", "topic"))
    ask(c.DeleteStream(stream.id))
    ask(c.LogoutUser())
    assert answered == set(CODECS) - {
        LaterCode.LOGIN_REGISTER, Code.SEND_MESSAGES, Code.POLL_MESSAGES
    }  # fmt: skip
    assert len(token.token) > 20


def test_an_answer_echoes_its_request(wire: ConsensusWire) -> None:
    wire.number = 77
    frame = wire.frame(Code.CREATE_STREAM, b"\4echo")
    wire.put(frame)
    assert wire.answer().status == 0
    assert wire.header[128:144] == frame[144:160]
    assert wire.header[160:176] == frame[128:144]
    assert wire.header[200:208] == frame[168:176]
    assert wire.header[208] == OPERATIONS[Code.CREATE_STREAM]
    wire.number += 1
    assert wire.status(c.CreateStream("echo")) == StreamNameAlreadyExists.status


def test_commands_with_an_operation_may_come_as_queries(wire: ConsensusWire) -> None:
    changed = {"operation": 2, "header_code": int(Code.CREATE_STREAM)}
    answer = wire.request(Code.CREATE_STREAM, b"\5query", **changed)
    assert answer.status == 0
    assert answer.payload[-9:] == b"\5query"[1:] + bytes(4)


@pytest.mark.parametrize("code", [9999, 14, 103, 104, 123])
def test_unknown_codes(wire: ConsensusWire, code: int) -> None:
    assert wire.request(code) == Answer(InvalidCommand.status, b"")
    assert wire.is_in_step()


@pytest.mark.parametrize("operation", [0, 4, 64, 68, 127, 150, 159, 163, 255])
def test_unknown_operations(wire: ConsensusWire, operation: int) -> None:
    wire.request(Code.PING, b"with a payload", operation=operation)
    assert wire.evicted == Reason.INVALID_OPERATION
    assert wire.is_in_step()


def test_a_wrong_stamp(wire: ConsensusWire) -> None:
    wrong = wire.request(Code.CREATE_STREAM, b"\7stamped", checksum=b"\1" * 8 + bytes(8))
    assert wrong == Answer(InvalidFormat.status, b"")
    assert wire.ask(c.GetStream("stamped")) is None
    assert wire.request(Code.CREATE_STREAM, b"\7stamped", checksum=bytes(16)).status == 0


def test_a_wrong_stamp_of_a_large_frame(wire: ConsensusWire) -> None:
    """It is found when the last byte has come into a buffer of its own."""
    payload = b"\5large" + bytes(3_000_000)
    for _ in range(3):
        wrong = wire.request(Code.CREATE_STREAM, payload, checksum=b"\1" * 8 + bytes(8))
        assert wrong == Answer(InvalidFormat.status, b"")
    assert wire.is_in_step()
    assert wire.request(Code.CREATE_STREAM, payload).status == OptionsBlockTooLarge.status


@pytest.mark.parametrize("size", [0, 255])
def test_sizes_below_that_of_a_header(wire: ConsensusWire, size: int) -> None:
    wire.request(Code.PING, size=size)
    assert wire.evicted == Reason.INVALID_BODY_SIZE
    assert wire.is_closed()


@pytest.mark.parametrize("code", [Code.PING, Code.CREATE_STREAM, Code.SEND_MESSAGES])
def test_sizes_above_the_limit(wire: ConsensusWire, code: Code) -> None:
    assert wire.request(code, size=0xFFFFFFFF).status == InvalidCommand.status
    assert wire.is_closed()


def test_an_endless_frame_of_another_session(wire: ConsensusWire) -> None:
    wire.request(Code.PING, size=0xFFFFFFFF, session=1)
    assert wire.evicted == Reason.NO_SESSION
    assert wire.is_closed()
