"""What differs from the classic generation beyond captured frames: ids, names, statuses."""

from typing import Any

import pytest

from borzoi.protocol import commands as c
from borzoi.protocol import responses as r
from borzoi.protocol.classic import CODECS
from borzoi.protocol.codes import Code
from borzoi.protocol.errors import (
    BrokerError,
    InvalidCommand,
    InvalidConsumerGroupName,
    InvalidIdentifier,
    InvalidMessagesCount,
    InvalidStreamName,
    InvalidTopicName,
    PartitionNotFound,
    StreamIdNotFound,
    error_for,
)
from borzoi.protocol.generations import BARE_KEYS, CLASSIC, GENERATIONS, HYBRID, OLD, V1, V1_SHORT
from borzoi.protocol.identifiers import Consumer, ConsumerKind, PartitionId
from borzoi.protocol.index_entry import INDEX_ENTRY
from borzoi.protocol.message import decode_messages
from borzoi.protocol.older.codecs import OLD_CODECS
from borzoi.protocol.older.sends import find_short_send
from borzoi.protocol.older.statuses import older_status
from borzoi.protocol.payload import pack_identifiers, pack_partitioning
from borzoi.protocol.permissions import Permissions, StreamPermissions, TopicPermissions
from tests.protocol.older.frames import payload_of

GRANTS = Permissions(
    streams={0: StreamPermissions(True, topics={4: TopicPermissions(send_messages=True)})}
)
LATER = {Code.GET_CLUSTER_METADATA, Code.DELETE_SEGMENTS}


def test_the_codes_of_the_older_page_and_one_more_are_known() -> None:
    assert len(OLD.requests) == 45
    assert set(CLASSIC.requests) - set(OLD.requests) == LATER
    assert set(OLD.requests) == set(V1.requests) == set(V1_SHORT.requests)
    assert set(CLASSIC.requests) - set(HYBRID.requests) == {Code.GET_CLUSTER_METADATA}
    assert set(BARE_KEYS.requests) == set(CLASSIC.requests)


def test_every_generation_has_its_name() -> None:
    assert all(name == one.name for name, one in GENERATIONS.items())


@pytest.mark.parametrize(
    ("code", "value", "classic_value"),
    [
        (Code.GET_USER, c.GetUser(3), c.GetUser(4)),
        (Code.DELETE_USER, c.DeleteUser("ann"), c.DeleteUser("ann")),
        (
            Code.UPDATE_PERMISSIONS,
            c.UpdatePermissions(1, GRANTS),
            c.UpdatePermissions(
                2,
                Permissions(
                    streams={
                        1: StreamPermissions(True, topics={5: TopicPermissions(send_messages=True)})
                    }
                ),
            ),
        ),
        (
            Code.FLUSH_UNSAVED_BUFFER,
            c.FlushUnsavedBuffer("s", 0, 2, fsync=True),
            c.FlushUnsavedBuffer("s", 1, 3, fsync=True),
        ),
        (Code.GET_CLIENT, c.GetClient(7), c.GetClient(7)),
    ],
)
def test_ids_of_requests_count_from_1(code: Code, value: Any, classic_value: Any) -> None:
    encoded = OLD_CODECS[code].request.encode(value)
    assert OLD.requests[code](memoryview(encoded)) == value
    assert CLASSIC.requests[code](memoryview(encoded)) == classic_value


CLIENT = r.ClientInfo(7, 0, r.Transport.TCP, "127.0.0.1:1", 1)


@pytest.mark.parametrize(
    ("code", "value", "classic_value"),
    [
        (
            Code.GET_ME,
            r.ClientDetails(CLIENT, (r.Membership(0, 1, 2),)),
            r.ClientDetails(
                r.ClientInfo(7, 1, r.Transport.TCP, "127.0.0.1:1", 1), (r.Membership(1, 2, 3),)
            ),
        ),
        (
            Code.GET_CLIENTS,
            (r.ClientInfo(7, None, r.Transport.TCP, "a", 0),),
            (r.ClientInfo(7, 0, r.Transport.TCP, "a", 0),),
        ),
        (
            Code.GET_CONSUMER_GROUP,
            r.ConsumerGroupDetails(
                r.ConsumerGroupInfo(0, 2, 1, "g"), (r.ConsumerGroupMember(77, (0, 1)),)
            ),
            r.ConsumerGroupDetails(
                r.ConsumerGroupInfo(1, 2, 1, "g"), (r.ConsumerGroupMember(77, (1, 2)),)
            ),
        ),
    ],
)
def test_ids_of_answers_count_from_1(code: Code, value: Any, classic_value: Any) -> None:
    encoded = memoryview(OLD.replies[code](value))
    assert CODECS[code].answer.decode(encoded) == classic_value
    assert OLD_CODECS[code].answer.decode(encoded) == value


def test_consumers_are_never_shifted_and_groups_always() -> None:
    for kind, shift in ((ConsumerKind.CONSUMER, 0), (ConsumerKind.GROUP, 1)):
        command = c.GetConsumerOffset(Consumer(kind, 5), 0, 0, None)
        encoded = memoryview(OLD_CODECS[Code.GET_CONSUMER_OFFSET].request.encode(command))
        assert encoded[1:7] == b"\1\4" + (5 + shift).to_bytes(4, "little")
        assert encoded[-4:] == bytes(4)  # no partition
        assert OLD.requests[Code.GET_CONSUMER_OFFSET](encoded) == command


@pytest.mark.parametrize(
    ("code", "payload", "error"),
    [
        (Code.GET_STREAM, pack_identifiers(0), InvalidIdentifier),
        (Code.CREATE_STREAM, bytes(4) + b"\0", InvalidStreamName),
        (Code.CREATE_TOPIC, pack_identifiers(1) + bytes(8) + b"\1" + bytes(18), InvalidTopicName),
        (Code.CREATE_CONSUMER_GROUP, pack_identifiers(1, 1) + bytes(5), InvalidConsumerGroupName),
        (Code.POLL_MESSAGES, bytes(payload_of("poll")[:-5]) + bytes(5), InvalidMessagesCount),
        (Code.CREATE_STREAM, b"\1\0\0\0\4abc", InvalidCommand),
    ],
)
def test_faults(code: Code, payload: bytes, error: type[BrokerError]) -> None:
    with pytest.raises(error):
        OLD.requests[code](memoryview(payload))


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (error_for(4), 3),
        (error_for(6), 3),
        (error_for(2019), 2015),
        (error_for(3022), 3021),
        (error_for(1009), 1009),
        (StreamIdNotFound("", 1010), 1010),
        (PartitionNotFound("", 3008), 3008),
    ],
)
def test_statuses(error: BrokerError, status: int) -> None:
    assert older_status(error) == status


def short_send(stream: int | str, partition: int) -> bytes:
    target = pack_identifiers(stream, "t") + pack_partitioning(PartitionId(partition))
    head = (0).to_bytes(8, "little") + (42).to_bytes(16, "little") + bytes(16) + b"\5" + bytes(7)
    message = head + (0).to_bytes(4, "little") + (2).to_bytes(4, "little") + b"hi"
    metadata = target + (1).to_bytes(4, "little")
    index = INDEX_ENTRY.pack(0, len(message), 0)
    return len(metadata).to_bytes(4, "little") + metadata + index + message


@pytest.mark.parametrize(("generation", "shift"), [(HYBRID, 1), (BARE_KEYS, 0)])
def test_sends_with_short_heads(generation: Any, shift: int) -> None:
    payload = memoryview(short_send(3, 2))
    command = generation.requests[Code.SEND_MESSAGES](payload)
    assert command[:4] == (3 - shift, "t", PartitionId(2 - shift), 1)
    (message,) = decode_messages(command.batch)
    assert (message.id, message.payload, message.origin_timestamp) == (42, b"hi", 5)
    assert generation.read_head(bytes(payload) + bytes(800))[:2] == (3 - shift, "t")
    place = bytes(payload[: int.from_bytes(payload[:4], "little")])
    assert find_short_send(payload, {place: "there"}) == ("there", 1, command.batch)
    assert find_short_send(payload, {}) is None


@pytest.mark.parametrize("generation", [HYBRID, BARE_KEYS])
def test_a_short_send_cut_anywhere_is_refused(generation: Any) -> None:
    payload = short_send("s", 1)
    for end in range(len(payload)):
        with pytest.raises(BrokerError):
            generation.requests[Code.SEND_MESSAGES](memoryview(payload[:end]))
