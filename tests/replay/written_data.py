"""What a data directory and its archive hold that an older version wrote, and how to look at it.

Stream "orders" has a topic per codec (none, gzip, lz4, zstd) with two partitions in several
segments, consumer offsets, a group with offsets, users, a token. Stream "gone" was deleted, topic
"purged" was purged once.
"""

from pathlib import Path
from typing import Final

from borzoi.protocol.commands import (
    CreateConsumerGroup,
    CreatePersonalAccessToken,
    CreateStream,
    CreateTopic,
    CreateUser,
    DeleteStream,
    GetConsumerGroup,
    GetConsumerOffset,
    GetPersonalAccessTokens,
    GetStreams,
    GetUser,
    GetUsers,
    JoinConsumerGroup,
    LoginUser,
    LoginWithPersonalAccessToken,
    PurgeTopic,
    StoreConsumerOffset,
)
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from borzoi.protocol.message import Message
from borzoi.protocol.permissions import GlobalPermissions, Permissions, UserStatus
from tests.broker import BrokerProcess
from tests.wire import Wire

STREAM, GROUP = "orders", "readers"
CODECS: Final = {"plain": 1, "gzip": 2, "lz4": 3, "zstd": 4}
PARTITIONS: Final = 2
MESSAGES: Final = 52
HEADERS: Final = bytes.fromhex("02010000006b0b0400000007000000")  # "k" is the u32 7
CONSUMERS: Final = {
    Consumer(ConsumerKind.CONSUMER, 7): 4,
    Consumer(ConsumerKind.CONSUMER, "named"): 30,
    Consumer(ConsumerKind.GROUP, GROUP): 17,
}
RIGHTS: Final = Permissions(GlobalPermissions(read_streams=True, poll_messages=True))

PLAIN: Final = {
    "IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": "2",
    "IGGY_SYSTEM_SEGMENT_SIZE": "2KiB",
}
COMPRESSED: Final = {**PLAIN, "IGGY_SYSTEM_COMPRESSION_ALLOW_OVERRIDE": "true"}
KEY: Final = {"IGGY_SYSTEM_ENCRYPTION_KEY": "A" * 43 + "="}
ENCRYPTED: Final = {**COMPRESSED, **KEY, "IGGY_SYSTEM_ENCRYPTION_ENABLED": "true"}
VARIANTS: Final = {"plain": PLAIN, "compressed": COMPRESSED, "encrypted": ENCRYPTED}


def archiving_to(path: Path) -> dict[str, str]:
    return {
        "IGGY_DATA_MAINTENANCE_ARCHIVER_ENABLED": "true",
        "IGGY_DATA_MAINTENANCE_ARCHIVER_INTERVAL": "50 ms",
        "IGGY_SYSTEM_BACKUP_PATH": str(path),
    }


def message(topic: str, partition: int, number: int) -> Message:
    """The message with this offset: every fifth has user headers, every third an id of its own."""
    payload = f"{topic} {partition} {number} ".encode() + bytes(range(100))
    return Message(
        payload,
        id=number if number % 3 else 0,
        user_headers=b"" if number % 5 else HEADERS,
        origin_timestamp=1_000_000 + number,
    )


def write(broker: BrokerProcess) -> str:
    """Everything; the raw token of root."""
    wire = Wire(broker)
    for name in (STREAM, "gone"):
        wire.ask(CreateStream(name))
    wire.ask(DeleteStream("gone"))
    for topic, codec in {**CODECS, "purged": 1}.items():
        wire.ask(CreateTopic(STREAM, PARTITIONS, codec, 0, 0, 1, topic))
    for partition in range(PARTITIONS):
        append(wire, "purged", partition, range(MESSAGES))
    wire.ask(PurgeTopic(STREAM, "purged"))
    append(wire, "purged", 1, range(1))
    for topic in CODECS:
        wire.ask(CreateConsumerGroup(STREAM, topic, GROUP))
        wire.ask(JoinConsumerGroup(STREAM, topic, GROUP))
        for partition in range(PARTITIONS):
            append(wire, topic, partition, range(MESSAGES))
            for consumer, offset in CONSUMERS.items():
                wire.ask(StoreConsumerOffset(consumer, STREAM, topic, partition, offset))
    wire.ask(CreateUser("reader", "secret one", UserStatus.ACTIVE, RIGHTS))
    wire.ask(CreateUser("nothing", "secret two", UserStatus.INACTIVE, None))
    token = wire.ask(CreatePersonalAccessToken("forever", 0)).token
    assert isinstance(token, str)
    return token


def append(wire: Wire, topic: str, partition: int, numbers: range) -> None:
    """In batches of three."""
    for start in range(numbers.start, numbers.stop, 3):
        batch = range(start, min(start + 3, numbers.stop))
        messages = [message(topic, partition, number) for number in batch]
        assert wire.send(topic, partition, *messages, stream=STREAM) == 0


def check(broker: BrokerProcess, token: str, count: int = MESSAGES) -> None:
    """Everything is there, with so many messages in each partition."""
    wire = Wire(broker)
    assert [stream.name for stream in wire.ask(GetStreams())] == [STREAM]
    for topic in CODECS:
        for partition in range(PARTITIONS):
            check_messages(wire, topic, partition, count)
            for consumer, offset in CONSUMERS.items():
                check_offset(wire, consumer, topic, partition, offset)
        assert wire.ask(GetConsumerGroup(STREAM, topic, GROUP)).group.members_count == 0
    check_messages(wire, "purged", 0, 0)
    check_messages(wire, "purged", 1, 1)
    assert [user.username for user in wire.ask(GetUsers())] == ["iggy", "reader", "nothing"]
    assert wire.ask(GetUser("reader")).permissions == RIGHTS
    assert [one.name for one in wire.ask(GetPersonalAccessTokens())] == ["forever"]
    wire.close()
    for login in (LoginUser("reader", "secret one"), LoginWithPersonalAccessToken(token)):
        other = Wire(broker, login=False)
        other.ask(login)
        check_messages(other, "plain", 0, count)
        other.close()


def check_messages(wire: Wire, topic: str, partition: int, count: int) -> None:
    found = wire.poll(topic, partition, count=1000, stream=STREAM).messages
    assert [one.offset for one in found] == list(range(count))
    for number, one in enumerate(found):
        sent = message(topic, partition, number)
        assert (one.payload, one.user_headers) == (sent.payload, sent.user_headers)
        assert one.origin_timestamp == sent.origin_timestamp
        assert one.id == sent.id if sent.id else one.id


def check_offset(wire: Wire, consumer: Consumer, topic: str, partition: int, offset: int) -> None:
    stored = wire.ask(GetConsumerOffset(consumer, STREAM, topic, partition))
    assert stored.stored_offset == offset
