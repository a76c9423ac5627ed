"""Clients of SDK 0.1 to 0.8 on the same port and the same data as all others."""

import struct
from collections.abc import Iterator

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.commands import (
    CreateConsumerGroup,
    CreatePartitions,
    CreatePersonalAccessToken,
    CreateStream,
    CreateTopic,
    CreateUser,
    DeleteConsumerGroup,
    DeleteConsumerOffset,
    DeletePartitions,
    DeletePersonalAccessToken,
    DeleteStream,
    DeleteUser,
    GetClients,
    GetConsumerGroup,
    GetConsumerGroups,
    GetConsumerOffset,
    GetMe,
    GetStats,
    GetStream,
    GetStreams,
    GetTopic,
    GetTopics,
    GetUser,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    LoginUser,
    LoginWithPersonalAccessToken,
    PurgeTopic,
    StoreConsumerOffset,
    UpdatePermissions,
    UpdateStream,
    UpdateTopic,
)
from borzoi.protocol.framing import encode_request
from borzoi.protocol.headers import (
    HeaderKind,
    encode_user_headers,
    header_field,
)
from borzoi.protocol.identifiers import U64_MAX, Consumer, ConsumerKind, StrategyKind
from borzoi.protocol.message import Message
from borzoi.protocol.payload import pack_identifiers
from borzoi.protocol.permissions import GlobalPermissions, Permissions, StreamPermissions
from borzoi.protocol.responses import ConsumerOffsetInfo
from tests.broker import BrokerProcess
from tests.older_wire import DIALECTS, OlderWire
from tests.topics import topic_of
from tests.wire import NEXT, Wire

BARE = b"\3\0\0\0key\2\5\0\0\0value"
KEYED = b"\2" + BARE
ONE_BASED = [name for name, dialect in DIALECTS.items() if dialect.base]


@pytest.fixture(scope="module")
def _kept_older(standing_broker: BrokerProcess) -> Iterator[dict[str, OlderWire]]:
    """A connection in each dialect: logins cost more than most tests do."""
    kept = {name: OlderWire(standing_broker, name) for name in DIALECTS}
    for connection in kept.values():
        Wire.opened.remove(connection)
    yield kept
    for connection in kept.values():
        connection.close()


@pytest.fixture(params=list(DIALECTS))
def older(request: pytest.FixtureRequest, _kept_older: dict[str, OlderWire]) -> OlderWire:
    """A connection in each dialect, logged in as root."""
    return _kept_older[request.param]


@pytest.fixture(params=ONE_BASED)
def from_one(request: pytest.FixtureRequest, _kept_older: dict[str, OlderWire]) -> OlderWire:
    """The same, in the dialects that count from 1."""
    return _kept_older[request.param]


@pytest.fixture(params=["v1", "v1-short"])
def oldest(request: pytest.FixtureRequest, _kept_older: dict[str, OlderWire]) -> OlderWire:
    """Those that log in without a version."""
    return _kept_older[request.param]


@pytest.fixture
def old(_kept_older: dict[str, OlderWire]) -> OlderWire:
    return _kept_older["old"]


def test_what_one_writes_the_other_reads(older: OlderWire, wire: Wire, topic: str) -> None:
    assert older.send_all(topic, topic, 0, [(42, BARE, b"old"), (0, b"", b"x")]) == (0, b"")
    stored = wire.poll(topic).messages
    assert [(one.offset, one.payload) for one in stored] == [(0, b"old"), (1, b"x")]
    assert stored[0].id == 42
    assert stored[0].headers == {header_field("key"): header_field("value")}
    assert all(one.origin_timestamp for one in stored)
    wire.append(topic, topic, 0, [Message(b"new", 43, KEYED), Message(b"y" * 3_000_000)])
    partition, shown = older.poll_all(topic, topic)
    assert partition == older.dialect.base
    assert [one.offset for one in shown] == [0, 1, 2, 3]
    assert [one.payload for one in shown] == [b"old", b"x", b"new", b"y" * 3_000_000]
    assert [one.headers for one in shown] == [BARE, b"", BARE, b""]
    assert [one.id for one in shown][::2] == [42, 43]
    whole = wire.poll(topic).messages
    assert [one.timestamp for one in shown] == [one.timestamp for one in whole]
    assert [one.id for one in shown] == [one.id for one in whole]


def test_keys_without_an_older_form_are_text_and_a_bad_block_is_none(
    older: OlderWire, wire: Wire, topic: str
) -> None:
    numbered = encode_user_headers({header_field(7, HeaderKind.UINT8): header_field("v")})
    wire.append(topic, topic, 0, [Message(b"a", 1, numbered), Message(b"b", 2, b"garbage")])
    _, shown = older.poll_all(topic, topic)
    assert [one.headers for one in shown] == [b"\1\0\0\x007\2\1\0\0\0v", b""]


def test_an_empty_payload_is_shown_wherever_it_is(old: OlderWire, wire: Wire, topic: str) -> None:
    for payload in (b"", b"a", b""):
        wire.append(topic, topic, 0, [payload])
    for count in (1, 2, 3):
        _, shown = old.poll_all(topic, topic, count=count)
        assert [one.payload for one in shown] == [b"", b"a", b""][:count]
    assert old.send_all(topic, topic, 0, [(0, b"", b"")]).status == 3


def test_ids_are_chosen_and_count_from_1(from_one: OlderWire, wire: Wire, stream: str) -> None:
    older = from_one
    new = older.ask(CreateStream("chosen", wanted_id=3071))
    try:
        assert new.id == 3071
        raw = older.request(Code.GET_STREAM, b"\1\4" + (3072).to_bytes(4, "little"))
        assert raw.payload[:4] == (3072).to_bytes(4, "little")
        assert wire.ask(GetStream(3071)).stream.name == new.name
        topic = older.ask(CreateTopic(3071, 2, 1, U64_MAX, 0, 0, "t", wanted_id=8))
        assert topic.topic.id == 8
        assert [one.id for one in topic.partitions] == [0, 1]
        group = older.ask(CreateConsumerGroup(3071, 8, "g", wanted_id=4))
        assert group.id == 4
        assert wire.ask(GetConsumerGroup(3071, 8, 4)).group.name == "g"
        assert older.status(CreateStream("taken", wanted_id=3071)) == 1011
        assert older.status(CreateStream(new.name, wanted_id=3071)) == 1012
        assert older.status(CreateStream("high", wanted_id=4096)) == 1014
        assert older.status(CreateTopic(3071, 1, 1, 0, 0, 0, "u", wanted_id=8)) == 2012
        assert older.status(CreateTopic(3071, 1, 1, 0, 0, 0, "u", wanted_id=4096)) == 2016
        assert older.status(CreateConsumerGroup(3071, 8, "h", wanted_id=4)) == 5001
        assert older.status(CreateConsumerGroup(3071, 8, "h", wanted_id=65536)) == 5002
    finally:
        wire.ask(DeleteStream(3071))
    assert stream in [one.name for one in older.ask(GetStreams())]


def test_statuses_of_what_is_missing(from_one: OlderWire, wire: Wire, stream: str) -> None:
    older = from_one
    wire.ask(CreateTopic(stream, 0, 1, U64_MAX, 0, 0, "bare"))
    assert older.status(UpdateStream(4000, "x")) == 1009
    assert older.status(UpdateStream("missing", "x")) == 1010
    assert older.status(PurgeTopic(stream, 4000)) == 2010
    assert older.status(PurgeTopic(stream, "missing")) == 2011
    assert older.status(DeleteConsumerGroup(stream, "bare", 9)) == 5000
    assert older.status(DeleteConsumerGroup(stream, "bare", "missing")) == 5003
    assert older.status(GetTopics("missing")) == 1010
    assert older.status(GetConsumerGroups(stream, "missing")) == 2011
    assert older.ask(GetStream("missing")) is None
    assert older.send_all(stream, "bare", 0, [(0, b"", b"x")]).status == 3008
    assert older.request(Code.GET_STREAM, b"\1\4\0\0\0\0").status == 3
    assert older.request(Code.GET_STREAM, b"\7").status == 3
    assert older.request(Code.GET_CLUSTER_METADATA).status == 3
    wire.ask(CreatePartitions(stream, "bare", 2))
    assert older.send_all(stream, "bare", -1, [(0, b"", b"x")]).status == 3007
    assert older.ask(DeletePartitions(stream, "bare", 9)) is None
    assert older.ask(DeletePartitions(stream, "bare", 9)) is None
    assert older.ask(GetTopic(stream, "bare")).topic.partitions_count == 0


def test_offsets_are_shared_by_the_number_of_the_consumer(
    older: OlderWire, wire: Wire, topic: str
) -> None:
    wire.append(topic, topic, 0, [b"a", b"b", b"c"])
    reader = Consumer(ConsumerKind.CONSUMER, 1)
    assert older.ask(GetConsumerOffset(reader, topic, topic, 0)) is None
    older.ask(StoreConsumerOffset(reader, topic, topic, None, 1))
    assert wire.ask(GetConsumerOffset(reader, topic, topic, 0)) == ConsumerOffsetInfo(0, 2, 1)
    assert older.ask(GetConsumerOffset(reader, topic, topic, 0)) == ConsumerOffsetInfo(0, 2, 1)
    _, shown = older.poll_all(topic, topic, 0, NEXT, consumer=reader, auto_commit=True)
    assert [one.payload for one in shown] == [b"c"]
    older.ask(DeleteConsumerOffset(reader, topic, topic, 0))
    assert wire.ask(GetConsumerOffset(reader, topic, topic, 0)) is None


def test_consumers_of_the_first_releases_are_numbers(
    oldest: OlderWire, wire: Wire, topic: str
) -> None:
    """The page of their time has a bare u32 where later clients have an identifier."""
    older, place = oldest, pack_identifiers(topic, topic)
    wire.append(topic, topic, 0, [b"a", b"b", b"c"])
    who = struct.pack("<BI", ConsumerKind.CONSUMER, 1)
    stored = struct.pack("<IQ", 1, 1)
    assert older.request(Code.STORE_CONSUMER_OFFSET, who + place + stored) == (0, b"")
    reader = Consumer(ConsumerKind.CONSUMER, 1)
    assert wire.ask(GetConsumerOffset(reader, topic, topic, 0)) == ConsumerOffsetInfo(0, 2, 1)
    following = struct.pack("<IBQIB", 1, StrategyKind.NEXT, 0, 9, 1)
    status, payload = older.request(Code.POLL_MESSAGES, who + place + following)
    assert (status, payload[:16], payload[-1:]) == (0, struct.pack("<IQI", 1, 2, 1), b"c")
    group = struct.pack("<I", 7)
    assert older.request(Code.CREATE_CONSUMER_GROUP, place + group).status == 0
    assert older.request(Code.JOIN_CONSUMER_GROUP, place + group).status == 0
    (found,) = wire.ask(GetConsumerGroups(topic, topic))
    assert (found.id, found.name, found.members_count) == (6, "7", 1)
    assert older.request(Code.LEAVE_CONSUMER_GROUP, place + group).status == 0
    assert older.request(Code.DELETE_CONSUMER_GROUP, place + group).status == 0


def test_groups_are_shared(older: OlderWire, wire: Wire, stream: str) -> None:
    wire.ask(topic_of(stream))
    group = older.ask(CreateConsumerGroup(stream, stream, "readers"))
    member = Consumer(ConsumerKind.GROUP, group.id)
    older.ask(JoinConsumerGroup(stream, stream, group.id))
    older.send_all(stream, stream, 0, [(0, b"", b"a")])
    partition, shown = older.poll_all(stream, stream, None, NEXT, consumer=member, auto_commit=True)
    assert (partition, [one.payload for one in shown]) == (older.dialect.base, [b"a"])
    (in_group,) = older.ask(GetMe()).consumer_groups
    assert in_group.group_id == group.id
    wire.ask(JoinConsumerGroup(stream, stream, "readers"))
    described = older.ask(GetConsumerGroup(stream, stream, group.id))
    assert described == wire.ask(GetConsumerGroup(stream, stream, group.id))
    assert sorted(one.partitions for one in described.members) == [(), (0,)]
    older.ask(LeaveConsumerGroup(stream, stream, group.id))
    wire.ask(LeaveConsumerGroup(stream, stream, group.id))


def test_a_member_without_partitions_polls_partition_0(
    from_one: OlderWire, standing_broker: BrokerProcess, wire: Wire, topic: str
) -> None:
    wire.ask(CreateConsumerGroup(topic, topic, "readers"))
    member = Consumer(ConsumerKind.GROUP, "readers")
    with OlderWire(standing_broker, "old") as other:
        both = (from_one, other)
        for one in both:
            one.ask(JoinConsumerGroup(topic, topic, "readers"))
        polled = {one.poll_all(topic, topic, None, NEXT, consumer=member)[0]: one for one in both}
        assert sorted(polled) == [0, 1]
        without = polled[0]
        assert without.status(StoreConsumerOffset(member, topic, topic, None, 0)) == 3021
    from_one.ask(LeaveConsumerGroup(topic, topic, "readers"))


def test_users_and_permissions(older: OlderWire, wire: Wire, stream: str) -> None:
    stream_id = wire.ask(GetStream(stream)).stream.id
    grants = Permissions(
        GlobalPermissions(read_servers=True), {stream_id: StreamPermissions(read_stream=True)}
    )
    new = older.ask(CreateUser("ann", "password", permissions=grants))
    try:
        assert older.ask(GetMe()).client.user_id == 0
        assert wire.ask(GetUser("ann")).permissions == grants
        assert older.ask(GetUser(new.user.id)) == wire.ask(GetUser(new.user.id))
        older.ask(UpdatePermissions(new.user.id, None))
        assert wire.ask(GetUser("ann")).permissions is None
        assert {one.user_id for one in older.ask(GetClients())} == {0}
        assert older.ask(GetStats()).streams_count == wire.ask(GetStats()).streams_count
    finally:
        older.ask(DeleteUser(new.user.id))


def test_topics_and_their_settings(older: OlderWire, wire: Wire, stream: str) -> None:
    hour = 3_600_000_000
    older.ask(CreateTopic(stream, 1, 1, hour, 0, 1, "t"))
    assert wire.ask(GetTopic(stream, "t")).topic.message_expiry == hour
    older.ask(UpdateTopic(stream, "t", 1, U64_MAX, 0, 1, "u"))
    new = wire.ask(GetTopic(stream, "u"))
    assert new.topic.message_expiry == U64_MAX
    shown = older.ask(GetTopic(stream, "u"))
    assert shown.partitions == new.partitions
    if older.dialect.version is not None:
        assert shown == new


@pytest.mark.parametrize("name", DIALECTS)
def test_errors_have_a_text_where_the_client_reads_one(
    name: str, standing_broker: BrokerProcess
) -> None:
    older = OlderWire(standing_broker, name, login=False)
    older.begin(LoginUser("iggy", "wrong"))
    status, body = older.answer()
    assert status == 42
    if name == "old-text":
        assert int.from_bytes(body[:4], "little") == len(body) - 4 > 0
    else:
        assert body == b""
    older.log_in()


def test_v1_reads_texts_after_its_first_long_topic(
    standing_broker: BrokerProcess, wire: Wire, stream: str
) -> None:
    stream_id = b"\2" + bytes((len(stream),)) + stream.encode()
    short = stream_id + bytes(4) + b"\1\0\0\0" + bytes(4) + b"\1a"
    long = stream_id + bytes(4) + b"\1\0\0\0" + b"\1" + bytes(4) + bytes(8) + b"\1" + b"\1b"
    for payload, has_text in ((short, False), (long, True)):
        v1 = OlderWire(standing_broker, "v1")
        assert v1.request(Code.GET_STREAM, b"\7") == (3, b"")
        assert v1.request(Code.CREATE_TOPIC, payload).status == 0
        status, body = v1.request(Code.GET_STREAM, b"\7")
        assert (status, bool(body)) == (3, has_text)
    assert [one.name for one in wire.ask(GetTopics(stream))] == ["a", "b"]


def with_token(broker: BrokerProcess, raw: str) -> Wire:
    session = Wire(broker, login=False)
    session.ask(LoginWithPersonalAccessToken(raw))
    return session


def test_without_a_version_the_first_telling_request_decides(
    standing_broker: BrokerProcess, wire: Wire, old: OlderWire, topic: str
) -> None:
    raw = wire.ask(CreatePersonalAccessToken("shape", 0)).token
    stream_id = wire.ask(GetStream(topic)).stream.id
    number = b"\1\4" + (stream_id + 1).to_bytes(4, "little")
    name = b"\2" + bytes((len(topic),)) + topic.encode()
    poll = b"\1\1\4\1\0\0\0" + name * 2 + b"\1\0\0\0\3" + bytes(8) + b"\1\0\0\0\0"
    try:
        session = with_token(standing_broker, raw)
        session.put(encode_request(Code.POLL_MESSAGES, poll))
        assert session.answer() == (0, b"\1\0\0\0" + bytes(12))
        assert session.request(Code.GET_STREAM, number).payload[:4] == number[2:]
        session.close()
        session = with_token(standing_broker, raw)
        assert session.poll(topic).messages == ()
        assert session.ask(GetStream(stream_id)).stream.name == topic
        assert session.request(Code.POLL_MESSAGES, poll).status != 0
        session.close()
        session = with_token(standing_broker, raw)
        session.append(topic, topic, 0, [b"new"])
        assert session.payloads(topic) == [b"new"]
        # A version that was given at a login stays, whatever the shape of a request.
        old.ask(LoginWithPersonalAccessToken(raw))
        assert [one.payload for one in old.poll_all(topic, topic)[1]] == [b"new"]
    finally:
        wire.ask(DeletePersonalAccessToken("shape"))


def test_a_version_may_change_with_the_next_login(
    standing_broker: BrokerProcess, topic: str, wire: Wire
) -> None:
    old = OlderWire(standing_broker, "old")
    assert old.request(Code.LOGIN_USER, b"\4iggy\4iggy" + bytes(8)) == (0, bytes(4))
    assert old.request(Code.GET_CLUSTER_METADATA).status == 0
    assert old.request(Code.LOGIN_USER, b"\4iggy\5wrong\7\0\0\x000.6.202" + bytes(4)).status == 42
    assert old.request(Code.GET_CLUSTER_METADATA).status == 3
    assert wire.payloads(topic) == []


def test_clients_of_0_8_whose_messages_are_those_of_today(
    standing_broker: BrokerProcess, wire: Wire, topic: str
) -> None:
    """As the Go SDK: it does not begin with a PING, and its heads have 64 bytes."""
    wire.append(topic, topic, 0, [b"a"])
    login = LoginUser("iggy", "iggy", "0.8.1-edge.3")
    for begins_with_ping in (False, True):
        with Wire(standing_broker, login=False) as session:
            if begins_with_ping:
                assert session.is_in_step()
            session.ask(login)
            if begins_with_ping:
                session.append(topic, topic, 0, [b"b"])
            assert session.payloads(topic)[0] == b"a"
    with Wire(standing_broker, login=False) as session:
        session.ask(login)
        short = OlderWire(standing_broker, "bare-keys")
        short.socket, session.socket = session.socket, short.socket
        assert short.send_all(topic, topic, 0, [(0, BARE, b"c")]).status == 0
        assert [one.payload for one in short.poll_all(topic, topic)[1]] == [b"a", b"b", b"c"]


def test_a_session_stays_what_it_is_when_it_moves(
    older: OlderWire, wire: Wire, stream: str
) -> None:
    wire.ask(topic_of(stream, 8))
    stream_id = wire.ask(GetStream(stream)).stream.id
    for partition in range(8):
        assert older.send_all(stream_id, stream, partition, [(0, BARE, b"x")]).status == 0
        assert older.ask(GetStream(stream_id)).stream.name == stream
        _, (shown,) = older.poll_all(stream_id, stream, partition)
        assert (shown.payload, shown.headers) == (b"x", BARE)
