import pytest
from hypothesis import given, settings

from borzoi.protocol.errors import InvalidFormat
from borzoi.protocol.payload import U32, PayloadReader
from borzoi.protocol.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
    decode_permissions,
    encode_permissions,
    pack_permissions,
)
from tests.protocol import values

GLOBAL = "0000000000 01 00000000"  # read_streams
STREAM = "07000000 000100000000"  # 7: read_stream
TOPIC = "09000000 00000100"  # 9: poll_messages


def decode(block: str) -> Permissions:
    data = bytes.fromhex(block)
    return decode_permissions(PayloadReader(memoryview(U32.pack(len(data)) + data)))


@settings(max_examples=40)
@given(values.permissions)
def test_round_trip(permissions: Permissions) -> None:
    packed = pack_permissions(permissions)
    assert decode_permissions(PayloadReader(memoryview(packed + b"\1"))) == permissions
    entries = sum(12 + 9 * len(stream.topics) for stream in permissions.streams.values())
    assert len(encode_permissions(permissions)) == 11 + entries


def expected(*, topics: dict[int, TopicPermissions]) -> Permissions:
    return Permissions(
        GlobalPermissions(read_streams=True),
        {7: StreamPermissions(read_stream=True, topics=topics)},
    )


@pytest.mark.parametrize("rest", ["", "00"])
def test_a_missing_has_next_stream_counts_as_zero(rest: str) -> None:
    assert decode(GLOBAL + "01" + STREAM + "00" + rest) == expected(topics={})


@pytest.mark.parametrize("rest", ["", "00", "0000"])
def test_missing_has_next_bytes_behind_a_topic_count_as_zero(rest: str) -> None:
    topics = {9: TopicPermissions(poll_messages=True)}
    assert decode(GLOBAL + "01" + STREAM + "01" + TOPIC + rest) == expected(topics=topics)


def test_any_byte_but_zero_grants() -> None:
    assert decode("02ff0000000000000000" + "00").global_permissions == GlobalPermissions(
        manage_servers=True, read_servers=True
    )


@pytest.mark.parametrize("flag", ["02", "ff"])
def test_only_one_announces_a_stream(flag: str) -> None:
    assert decode(GLOBAL + flag).streams == {}


def test_ids_are_written_in_ascending_order() -> None:
    permissions = Permissions(streams={5: StreamPermissions(), 1: StreamPermissions()})
    assert list(decode(encode_permissions(permissions).hex()).streams) == [1, 5]


def test_a_block_longer_than_its_content() -> None:
    with pytest.raises(InvalidFormat):
        decode(GLOBAL + "00" + "00")
