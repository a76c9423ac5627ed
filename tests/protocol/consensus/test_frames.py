"""Every checked-in frame: cut, decoded, and its answer written to the byte."""

from typing import Any

import pytest

from borzoi.protocol import commands as c
from borzoi.protocol import responses as r
from borzoi.protocol.codes import Code
from borzoi.protocol.consensus.codecs import CODECS
from borzoi.protocol.consensus.evictions import Reason, eviction, protocol_version
from borzoi.protocol.consensus.framing import ConsensusFraming
from borzoi.protocol.consensus.operations import HAS_SECTION
from borzoi.protocol.consensus.options import pack_options
from borzoi.protocol.framing import Bound, Frame
from borzoi.protocol.headers import HeaderKind, header_field
from borzoi.protocol.identifiers import Consumer, ConsumerKind, PollingStrategy, StrategyKind
from tests.protocol.consensus.frames import Exchange, exchanges

EXCHANGES = {one.name: one for one in exchanges()}
CLIENT = EXCHANGES["W3"].request[128:144]
NOW = 1_700_000_000_000_000
REPLICATED = header_field("replicated")
DURABILITIES = pack_options({"durability": REPLICATED, "consumer_offset_durability": REPLICATED})
NEVER = 2**64 - 1
SEGMENT_SIZE = b"\x02\x0c\x00\x00\x00segment_size\x0c\x08\x00\x00\x00" + (2**30).to_bytes(
    8, "little"
)
TOPIC = r.TopicInfo(0, NOW, 2, NEVER, 1, NEVER, 1, 0, 0, "events", DURABILITIES, SEGMENT_SIZE)
PARTITIONS = tuple(r.PartitionInfo(at, NOW, 1, 0, 0, 0) for at in (0, 1))
GROUP = Consumer(ConsumerKind.GROUP, "grp")
NOT_READ: Any = object()  # by a codec of the table: batches are converted, polls leave as a head

COMMANDS: dict[str, Any] = {
    "W1": c.Ping(),
    "W2": c.Register(0x2C00, "rust-sdk", "0.11.0", "iggy", "wrong"),
    "W3": c.Register(0x2C00, "rust-sdk", "0.11.0", "iggy", "iggy"),
    "W4": c.GetClusterMetadata(),
    "W5": c.GetStream("nope"),
    "W6": c.CreateStream("orders"),
    "W7": c.CreateStream("orders"),
    "W8": c.CreateTopic("orders", 2, 1, 0, 0, 0, "events", DURABILITIES),
    "W9": c.GetTopic("orders", "events"),
    "W10": c.GetTopics("orders"),
    "W11": NOT_READ,
    "W12": NOT_READ,
    "W13": c.PollMessages(
        Consumer(ConsumerKind.CONSUMER, 0), "orders", "events", 1,
        PollingStrategy(StrategyKind.FIRST), 10, True,
    ),
    "W14": c.PollMessages(
        Consumer(ConsumerKind.CONSUMER, 0), "orders", "events", 1,
        PollingStrategy(StrategyKind.NEXT), 10, True,
    ),
    "W15": c.CreateConsumerGroup("orders", "events", "grp"),
    "W16": c.JoinConsumerGroup("orders", "events", "grp"),
    "W17": c.SyncConsumerGroup("orders", "events", "grp"),
    "W18": c.PollMessages(
        GROUP, "orders", "events", 0, PollingStrategy(StrategyKind.NEXT), 5, False
    ),
    "W19": c.StoreConsumerOffset(GROUP, "orders", "events", 1, 1),
    "W20": c.DeleteConsumerOffset(GROUP, "orders", "events", 1),
    "W21": c.DeleteConsumerOffset(GROUP, "orders", "events", 1),
    "W22": c.DescribeOptions(c.OptionScope.TOPIC),
    "W23": c.CreateUser("user1", "pass1"),
    "W24": c.UpdateTopic(
        "orders", "events", -1, -1, -1, -1, "events",
        pack_options({"message_expiry": header_field(NEVER, HeaderKind.UINT64)}),
    ),
    "W25": c.CreatePersonalAccessToken("tok", 0),
    "W26": c.LogoutUser(),
    "W27": c.Register(0x2C00, "rust-sdk", "0.11.0", token="toktok"),
    "K1": c.GetStreams(),
}  # fmt: skip
VALUES: dict[str, Any] = {
    "W1": None,
    "W3": r.Registered(0, 1, 0x2C00, "0.9.0"),
    "W4": r.ClusterMetadata(
        "single-node",
        (
            r.ClusterNode(
                "iggy-node", "127.0.0.1", 18700, 8080, 3000, 18700,
                r.NodeRole.LEADER, r.NodeStatus.HEALTHY,
            ),
        ),
    ),
    "W5": None,
    "W6": r.StreamInfo(0, NOW, 0, 0, 0, "orders"),
    "W8": r.TopicDetails(TOPIC, PARTITIONS),
    "W9": r.TopicDetails(TOPIC, PARTITIONS),
    "W10": (TOPIC,),
    "W11": r.SentBatch(0, 0, 1, 0),
    "W15": r.ConsumerGroupInfo(0, 2, 0, "grp"),
    "W16": None,
    "W17": r.GroupAssignment(1, (0, 1)),
    "W19": None,
    "W20": None,
    "W22": (
        r.OptionDescription("compression_algorithm", 2, b"none", "algo"),
        r.OptionDescription("segment_size", 12, (2**30).to_bytes(8, "little"), "seg"),
        r.OptionDescription("message_expiry", 12, b"", "exp"),
    ),
    "W23": r.UserDetails(r.UserInfo(1, NOW, 1, "user1"), None),  # type: ignore[arg-type]  # of one without any
    "W24": None,
    "W25": r.RawToken("tokto" + "k"),
    "W26": None,
    "W27": r.Registered(0, 2, 0x2C00, "0.9.0"),
}  # fmt: skip
STATUSES = {"W2": 42, "W7": 1012, "W12": 3007, "W21": 3021, "K1": 40}
POLLS = {"W13": (1, 1, 2), "W14": (1, 1, 0), "W18": (0, 0, 0)}


def framing_before(exchange: Exchange) -> ConsensusFraming:
    """A framing that has given as many answers as the connection of the frame had."""
    framing = ConsensusFraming()
    count = int.from_bytes(exchange.response[176:184], "little")
    framing.count = count - 1
    session = int.from_bytes(exchange.request[184:192], "little")
    if session:
        framing.adopt(Bound(session, CLIENT))
    return framing


def test_every_frame_is_looked_at() -> None:
    assert set(COMMANDS) | {"K2", "K3"} == set(EXCHANGES)
    assert set(VALUES) | set(STATUSES) | set(POLLS) | {"K2", "K3"} == set(EXCHANGES)
    assert len(EXCHANGES) == 30


@pytest.mark.parametrize("name", COMMANDS)
def test_requests(name: str) -> None:
    exchange = EXCHANGES[name]
    framing = framing_before(exchange)
    request = bytearray(exchange.request)
    frame = framing.cut(memoryview(request), 0, len(request))
    assert isinstance(frame, Frame)
    assert frame.total == len(request)
    assert bytes(frame.payload) == exchange.request[256:]
    assert framing.whole(memoryview(request), 0, len(request)) == frame.code
    # The classic header is left before the payload.
    assert request[248:252] == (len(frame.payload) + 4).to_bytes(4, "little")
    assert request[252:256] == frame.code.to_bytes(4, "little")
    expected = COMMANDS[name]
    if expected is NOT_READ:
        assert frame.code == Code.SEND_MESSAGES
        return
    codec = CODECS[frame.code]
    assert codec.command is type(expected)
    command = codec.request.decode(frame.payload)
    assert command == expected or type(command).__slots__ == ()
    assert codec.request.encode(command) == frame.payload


@pytest.mark.parametrize("name", VALUES)
def test_values_in_answers(name: str) -> None:
    exchange = EXCHANGES[name]
    framing = framing_before(exchange)
    frame = framing.cut(memoryview(exchange.request), 0, len(exchange.request))
    assert isinstance(frame, Frame)
    value = VALUES[name]
    payload = CODECS[frame.code].answer.encode(value)
    assert framing.success(len(payload)) + payload == exchange.response
    section = 4 if HAS_SECTION[framing.operation] else 0
    found = CODECS[frame.code].answer.decode(memoryview(exchange.response[256 + section :]))
    assert found == value


@pytest.mark.parametrize("name", STATUSES)
def test_refusals(name: str) -> None:
    exchange = EXCHANGES[name]
    framing = framing_before(exchange)
    assert isinstance(framing.cut(memoryview(exchange.request), 0, len(exchange.request)), Frame)
    assert framing.status(STATUSES[name]) == exchange.response


@pytest.mark.parametrize("name", POLLS)
def test_heads_of_polls(name: str) -> None:
    exchange = EXCHANGES[name]
    framing = framing_before(exchange)
    assert isinstance(framing.cut(memoryview(exchange.request), 0, len(exchange.request)), Frame)
    head = framing.polled(*POLLS[name], len(exchange.response) - 272)
    assert head == exchange.response[:272]


def test_evictions() -> None:
    assert eviction(CLIENT, Reason.STALE_CLIENT) == EXCHANGES["K2"].response
    window = {"oldest": protocol_version(0, 10, 0), "newest": protocol_version(0, 11, 0)}
    found = eviction(CLIENT, Reason.INCOMPATIBLE_PROTOCOL, **window)
    assert found == EXCHANGES["K3"].response
