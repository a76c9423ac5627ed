"""Blocks of options: their bounds, and what is wrong with one is named."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.protocol.codes import Code, LaterCode
from borzoi.protocol.commands import CreateStream, CreateUser, Register, UpdateUser
from borzoi.protocol.consensus.codecs import CODECS
from borzoi.protocol.consensus.options import (
    OPTIONS_MAX,
    OPTIONS_SIZE_MAX,
    pack_options,
    read_options,
)
from borzoi.protocol.errors import (
    BrokerError,
    IncompatibleProtocol,
    InvalidCommand,
    InvalidFormat,
    InvalidOptionValue,
    OptionsBlockTooLarge,
    UnsupportedOptionKey,
)
from borzoi.protocol.headers import HeaderField, HeaderKind, header_field

YES = header_field(True)


def field(kind: int, data: bytes) -> bytes:
    return struct.pack("<BI", kind, len(data)) + data


def test_a_block_both_ways() -> None:
    options = {"b": YES, "a": header_field("x"), "c": header_field(7, HeaderKind.UINT64)}
    block = pack_options(options)
    assert read_options(block) == options
    assert list(read_options(block)) == ["a", "b", "c"]
    assert read_options(b"") == {}


def test_values_may_be_long_and_empty() -> None:
    options = {
        "k": HeaderField(HeaderKind.STRING, b"v" * 1000),
        "e": HeaderField(HeaderKind.RAW, b""),
    }
    assert read_options(pack_options(options)) == options


def test_at_most_so_many() -> None:
    options = {f"{at}": YES for at in range(OPTIONS_MAX)}
    assert len(read_options(pack_options(options))) == OPTIONS_MAX
    with pytest.raises(OptionsBlockTooLarge, match="1024"):
        read_options(pack_options({**options, "one": YES}))


def test_at_most_so_large() -> None:
    room = OPTIONS_SIZE_MAX - len(pack_options({"k": HeaderField(HeaderKind.RAW, b"")}))
    assert read_options(pack_options({"k": HeaderField(HeaderKind.RAW, bytes(room))}))
    with pytest.raises(OptionsBlockTooLarge, match="100001 bytes"):
        read_options(pack_options({"k": HeaderField(HeaderKind.RAW, bytes(room + 1))}))


@pytest.mark.parametrize(
    ("block", "error", "says"),
    [
        (field(1, b"key") + field(3, b"\1"), UnsupportedOptionKey, "kind 1"),
        (field(2, b"\xff") + field(3, b"\1"), UnsupportedOptionKey, "no text"),
        (field(2, b"key") + field(16, b"\1"), InvalidOptionValue, "'key' is of the unknown kind"),
        (field(2, b"key") + field(3, b"\1\1"), InvalidOptionValue, "'key' is a BOOL of 2 bytes"),
        (2 * (field(2, b"k") + field(3, b"\1")), InvalidOptionValue, "twice"),
        (b"\2", InvalidCommand, "cut short"),
        (field(2, b"key"), InvalidCommand, "cut short"),
        (field(2, b"key")[:-1], InvalidCommand, "cut short"),
        (field(2, b"k" * 70) + field(16, b""), InvalidOptionValue, "k\\.\\.\\.'"),
    ],
)  # fmt: skip
def test_what_is_no_block(block: bytes, error: type[BrokerError], says: str) -> None:
    with pytest.raises(error, match=says):
        read_options(block)


@given(st.binary(max_size=60))
def test_any_bytes(block: bytes) -> None:
    try:
        found = read_options(block)
    except BrokerError:
        return
    assert read_options(pack_options(found)) == found


@pytest.mark.parametrize(
    ("code", "command"),
    [
        (Code.CREATE_STREAM, CreateStream("s", pack_options({"k": YES}))),
        (Code.CREATE_USER, CreateUser("u", "p", options=pack_options({"k": YES}))),
        (Code.UPDATE_USER, UpdateUser("u", "n", None, pack_options({"k": YES}))),
    ],
)
def test_options_are_the_rest_of_a_request(code: Code, command: object) -> None:
    codec = CODECS[code]
    assert codec.request.decode(memoryview(codec.request.encode(command))) == command


# The login, whose shape has to be found out.


def register(payload: bytes) -> Register:
    command: Register = CODECS[LaterCode.LOGIN_REGISTER].request.decode(memoryview(payload))
    return command


HEAD = struct.pack("<I", 0x2C00) + b"\x03sdk\x011"


def test_shapes_of_a_login() -> None:
    assert register(HEAD + b"\4name\4pass" + bytes(4)) == Register(
        0x2C00, "sdk", "1", "name", "pass"
    )
    assert register(HEAD + b"\4toke" + bytes(4)) == Register(0x2C00, "sdk", "1", token="toke")


@pytest.mark.parametrize("end", range(len(HEAD) + 5))
def test_a_login_that_is_cut_short(end: int) -> None:
    with pytest.raises((InvalidCommand, InvalidFormat)):
        register((HEAD + b"\4toke" + bytes(4))[:end])


@pytest.mark.parametrize("version", [0, 1 << 20, 0xFFFFFFFF])
def test_versions_that_are_not_served(version: int) -> None:
    with pytest.raises(IncompatibleProtocol, match="are served"):
        register(struct.pack("<I", version) + b"whatever")


@pytest.mark.parametrize("code", [Code.STORE_CONSUMER_OFFSET, Code.DELETE_CONSUMER_OFFSET])
def test_acknowledgement_levels(code: Code) -> None:
    request = CODECS[code].request
    size = 8 if code == Code.STORE_CONSUMER_OFFSET else 0
    start = bytes.fromhex("01 01 04 00000000 02 01 73 02 01 74 00 00000000") + bytes(size)
    commands = [request.decode(memoryview(start + ack)) for ack in (b"", b"\0", b"\1")]
    assert commands[0] == commands[1] == commands[2]
    with pytest.raises(InvalidCommand, match="level 2"):
        request.decode(memoryview(start + b"\2"))
