"""The vectors of the API: bytes of messages and acks, names of the service, partitions of keys."""

import pytest
from grpclib.exceptions import GRPCError

from borzoi.liftbridge.calls import cut, framed, parsed
from borzoi.liftbridge.schema import CLASSES, Ack, Message
from borzoi.liftbridge.server import Api

PAYLOADS = {
    "P1": (Message(value=b"hello"), "1a0568656c6c6f"),
    "P3": (
        Message(
            key=b"k1",
            value=b"hello",
            headers={"h1": b"\1\2"},
            ackInbox="ack.inbox.1",
            correlationId="c-1",
        ),
        "12026b311a0568656c6c6f4a080a02683112020102520b61636b2e696e626f782e315a03632d31",
    ),
    "P5": (
        Message(
            offset=-1,
            value=b"x",
            stream="foo-stream",
            subject="foo",
            ackInbox="acks",
            correlationId="42",
            ackPolicy=1,
        ),
        "08ffffffffffffffffff011a01782a0a666f6f2d73747265616d3a03666f6f520461636b735a0234326001",
    ),
    "P6": (Message(ackPolicy=2), "6002"),
    "P7": (Message(), ""),
    "A1": (
        Ack(
            stream="foo-stream",
            partitionSubject="foo",
            msgSubject="foo",
            ackInbox="ack.inbox.1",
            correlationId="c-1",
            receptionTimestamp=1_700_000_000_000_000_000,
            commitTimestamp=1_700_000_000_000_001_000,
        ),
        "0a0a666f6f2d73747265616d1203666f6f1a03666f6f2a0b61636b2e696e626f782e313203632d31"
        "408080a8b1e39fe7cb1748e887a8b1e39fe7cb17",
    ),
    "A3": (
        Ack(
            stream="foo-stream",
            partitionSubject="foo",
            msgSubject="foo.1",
            offset=300,
            ackInbox="acks",
            correlationId="42",
            ackPolicy=1,
            receptionTimestamp=1,
            commitTimestamp=2,
        ),
        "0a0a666f6f2d73747265616d1203666f6f1a05666f6f2e3120ac022a0461636b7332023432380140014802",
    ),
    "A4": (
        Ack(
            stream="foo-stream",
            partitionSubject="foo",
            msgSubject="foo",
            ackInbox="acks",
            correlationId="42",
            receptionTimestamp=1,
            commitTimestamp=2,
            ackError=2,
        ),
        "0a0a666f6f2d73747265616d1203666f6f1a03666f6f2a0461636b7332023432400148025002",
    ),
}


@pytest.mark.parametrize("name", PAYLOADS)
def test_vectors_go_both_ways(name: str) -> None:
    message, text = PAYLOADS[name]
    assert message.SerializeToString().hex() == text
    assert type(message).FromString(bytes.fromhex(text)) == message


def test_all_methods_of_the_service_are_there() -> None:
    api = Api.__new__(Api)
    names = [path.removeprefix("/proto.API/") for path in api.__mapping__()]
    assert " ".join(sorted(names)) == (
        "CreateStream DeleteStream FetchConsumerGroupAssignments FetchCursor FetchMetadata"
        " FetchPartitionMetadata JoinConsumerGroup LeaveConsumerGroup PauseStream Publish"
        " PublishAsync PublishToSubject ReportConsumerGroupCoordinator SetCursor SetStreamReadonly"
        " Subscribe"
    )


def test_fields_that_are_not_known_are_ignored() -> None:
    data = CLASSES["SubscribeRequest"](stream="s").SerializeToString() + b"\x60\x01"
    assert parsed(CLASSES["SubscribeRequest"], data).stream == "s"


@pytest.mark.parametrize("end", range(18))
def test_messages_are_cut_wherever_bytes_end(end: int) -> None:
    data = framed(b"one") + framed(b"") + framed(b"22")[:-1] + b"2"
    bounds, rest = cut(data[:end])
    whole = [data[start:stop] for start, stop in bounds]
    assert whole == [b"one", b"", b"22"][: len(whole)]
    assert rest == sum(len(framed(one)) for one in whole)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\1\0\0\0\0", "compressed messages are not understood"),
        (b"\0\xff\xff\xff\xff", "4294967295 vs. 4194304"),
    ],
)
def test_what_cannot_be_received_is_refused_by_its_head(data: bytes, text: str) -> None:
    with pytest.raises(GRPCError, match=text):
        cut(data)
