"""What people write on the command line, and how values are shown to them."""

from typing import Any

import pytest

from borzoi.client.cli import parameters
from borzoi.client.cli.showing import MessageAt, Said, as_plain, card, show, table, time_text
from borzoi.protocol.headers import HeaderKind, encode_user_headers, header_field
from borzoi.protocol.identifiers import U64_MAX
from borzoi.protocol.message import Message
from borzoi.protocol.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
    UserStatus,
)
from borzoi.protocol.responses import (
    ClientDetails,
    ClientInfo,
    Membership,
    RawToken,
    StreamInfo,
    Transport,
    UserDetails,
    UserInfo,
)

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("10s", 10 * SECOND),
        ("1h 30m", 5400 * SECOND),
        ("1h30min 2 sec", 5402 * SECOND),
        ("1day 5ms 7us", 86_400 * SECOND + 5_007),
        ("never", U64_MAX),
        ("UNLIMITED", U64_MAX),
        ("default", 0),
    ],
)
def test_durations(text: str, microseconds: int) -> None:
    assert parameters.duration_us(text) == microseconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("1000", 1000), ("10 GiB", 10 * 2**30), ("2kb", 2000), ("unlimited", U64_MAX), ("default", 0)],
)
def test_sizes(text: str, size: int) -> None:
    assert parameters.size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "  ", "soon", "5", "5 parsecs", "1h x", "-1s", "1.5h"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        parameters.duration_us(text)


@pytest.mark.parametrize("text", ["", "large", "1 GB 2 MB", "1 s"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="is no size"):
        parameters.size_bytes(text)


def test_identifiers() -> None:
    assert parameters.identifier("7") == 7
    assert parameters.identifier("seven") == "seven"
    assert parameters.identifier("-7") == "-7"


def test_permissions() -> None:
    assert parameters.global_permissions("read_users,s_msg") == GlobalPermissions(
        read_users=True, send_messages=True
    )
    assert parameters.stream_permissions("1:m_str,r_top#2:m_top,p_msg#3") == (
        1,
        StreamPermissions(
            manage_stream=True,
            read_topics=True,
            topics={
                2: TopicPermissions(manage_topic=True, poll_messages=True),
                3: TopicPermissions(),
            },
        ),
    )
    assert parameters.permissions(None, ()) is None
    assert parameters.permissions(None, ((1, StreamPermissions()),)) == Permissions(
        streams={1: StreamPermissions()}
    )


@pytest.mark.parametrize("text", ["orders", "1:fly", "1:m_usr", "1#events"])
def test_no_permissions(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no (id|right)"):
        parameters.stream_permissions(text)


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("k:string:a:b", "a:b", HeaderKind.STRING),
        ("k:raw:x", b"x", HeaderKind.RAW),
        ("k:bool:true", True, HeaderKind.BOOL),
        ("k:uint8:200", 200, HeaderKind.UINT8),
        ("k:float64:0.5", 0.5, HeaderKind.FLOAT64),
    ],
)
def test_headers(text: str, value: Any, kind: HeaderKind) -> None:
    assert parameters.header(text) == (header_field("k"), header_field(value, kind))


@pytest.mark.parametrize("text", ["k", "k:string", "k:text:x", "k:bool:yes", "k:int8:x"])
def test_no_headers(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no header|neither true|invalid literal"):
        parameters.header(text)


def test_details_are_shown_beside_their_parts() -> None:
    details = ClientDetails(
        ClientInfo(7, None, Transport.TCP, "127.0.0.1:1", 1), (Membership(1, 2, 3),)
    )
    assert as_plain(details) == {
        "client_id": 7,
        "user_id": None,
        "transport": "tcp",
        "address": "127.0.0.1:1",
        "consumer_groups_count": 1,
        "consumer_groups": [{"stream_id": 1, "topic_id": 2, "group_id": 3}],
    }
    assert card(as_plain(details)) == [
        "client_id              7",
        "user_id                -",
        "transport              tcp",
        "address                127.0.0.1:1",
        "consumer_groups_count  1",
        "",
        "consumer_groups:",
        "  stream_id  topic_id  group_id",
        "  1          2         3",
    ]


def test_permissions_are_shown() -> None:
    rights = Permissions(streams={3: StreamPermissions(send_messages=True)})
    plain = as_plain(UserDetails(UserInfo(1, 0, UserStatus.ACTIVE, "anna"), rights))
    assert plain["username"] == "anna"
    assert plain["permissions"]["streams"]["3"]["send_messages"] is True
    assert any("send_messages" in line for line in card(plain))


def test_messages_are_shown() -> None:
    block = encode_user_headers(
        {header_field("n"): header_field(1), header_field("r"): header_field(b"\xff")}
    )
    text = Message(b"hello", id=5, user_headers=block, offset=3, timestamp=1_000_000)
    binary = Message(b"\xff\xfe", offset=4)
    assert as_plain(MessageAt(2, text)) == {
        "partition_id": 2,
        "offset": 3,
        "timestamp": 1_000_000,
        "origin_timestamp": 0,
        "id": "5",
        "payload": "hello",
        "headers": {"n": 1, "r": "/w=="},
    }
    rows = [as_plain(MessageAt(2, one, with_headers=False)) for one in (text, binary)]
    assert rows[1]["payload_base64"] == "//4="
    names, first, _ = table(rows)
    assert "1970-01-01 00:00:01.000000" in first
    assert "payload_base64" in names
    assert "headers" not in names


def test_times_that_no_calendar_has() -> None:
    assert time_text(U64_MAX) == str(U64_MAX)


def test_showing(capsys: pytest.CaptureFixture[str]) -> None:
    show(Said("done"), as_json=False)
    show(Said("done"), as_json=True)
    show((), as_json=False)
    show((StreamInfo(1, 0, 2, 3, 4, "s"),), as_json=True)
    show(RawToken("abc"), as_json=False)
    show(None, as_json=True)
    assert capsys.readouterr().out.splitlines() == [
        "done",
        '{"message": "done"}',
        "(none)",
        '[{"id": 1, "created_at": 0, "topics_count": 2, "size_bytes": 3,'
        ' "messages_count": 4, "name": "s"}]',
        "token  abc",
    ]
