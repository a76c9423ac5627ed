"""Which of the generations that frame alike a client is of: by its version, or by its requests.

The version stands in LOGIN_USER. A login by token has none; there the shape of the first request
that has another one in another generation tells. What looks the same in all of them tells nothing.
"""

from collections.abc import Callable, Mapping
from typing import Final

from borzoi.protocol.codes import Code
from borzoi.protocol.edge_layouts import OLD_SENT_HEADER, SHORT_HEADER_SIZE
from borzoi.protocol.errors import BrokerError
from borzoi.protocol.index_entry import INDEX_ENTRY, INDEX_ENTRY_SIZE
from borzoi.protocol.message import MESSAGE_HEADER_SIZE
from borzoi.protocol.older.codecs import ends_with_name, is_short_create_topic, rest_after
from borzoi.protocol.payload import U32, PayloadReader
from borzoi.protocol.send_target import METADATA_SIZE_MAX, METADATA_SIZE_MIN, read_target

CLASSIC: Final = "classic"
BARE_KEYS: Final = "bare-keys"
SDK_0_8: Final = "sdk-0.8"
SDK_0_8_SILENT: Final = "sdk-0.8-silent"
HYBRID: Final = "hybrid"
OLD: Final = "old"
OLD_TEXT: Final = "old-text"
V1: Final = "v1"
V1_TEXT: Final = "v1-text"
V1_SHORT: Final = "v1-short"

FIRST_CLASSIC: Final = (0, 8, 3)
FIRST_BARE_KEYS: Final = (0, 8)
FIRST_HYBRID: Final = (0, 7)
FIRST_WITHOUT_TEXT: Final = (0, 6, 60)

JAVA_0_6: Final = ("0.6.30", "java-sdk")
"""Version and context of the Java SDK 0.6.0, whose requests are those of SDK 0.8."""

LENGTHS_AT: Final = 48  # of user headers and payload, in heads of 56 and 64 bytes
CONTROL_CHARACTERS: Final = frozenset(range(32)) | {127}
LOOKED_AT_MAX: Final = 16
"""Messages of a send that tell its generation; a send may hold millions, and is decoded after."""

COMPRESSIONS: Final = frozenset({1, 2})


def name_for(version: str | None, context: str, has_pinged: bool) -> str:
    """The generation of a client that gives this version at login; None: its login has no field.

    Two families say 0.8: the Rust SDK and the packages made of it, which send a PING at once,
    before the login or behind it, and the Go SDK, whose messages are those of today.
    """
    if version is None:
        return V1
    if (version, context) == JAVA_0_6:
        return BARE_KEYS
    return _name_by_number(version, has_pinged)


def _name_by_number(version: str, has_pinged: bool) -> str:
    try:
        numbers = tuple(map(int, version.split("-", 1)[0].split(".")))
    except ValueError:
        return CLASSIC
    if numbers >= FIRST_CLASSIC:
        return CLASSIC
    if numbers >= FIRST_BARE_KEYS:
        return BARE_KEYS if has_pinged else SDK_0_8
    if numbers >= FIRST_HYBRID:
        return HYBRID
    return OLD if numbers >= FIRST_WITHOUT_TEXT else OLD_TEXT


def shown_without_version(code: int, payload: memoryview) -> str | None:
    """The generation that sends such a request, None if several do."""
    look = SHAPES.get(code)
    if look is None:
        return None
    try:
        return look(payload)
    except BrokerError:
        return None


def shown_by_ping(code: int, payload: memoryview) -> str | None:
    """Which of the families that say 0.8 a session is of, while it has asked nothing but that.

    Both ask for the metadata of the cluster behind their login. A client that was given its user
    with its address sends its first PING then; the other one some seconds later.
    """
    if code == Code.GET_CLUSTER_METADATA:
        return None
    return BARE_KEYS if code == Code.PING else shown_by_heads(code, payload) or SDK_0_8_SILENT


def shown_by_heads(code: int, payload: memoryview) -> str | None:
    """Which of the families that say 0.8 a session is of: by the heads of its messages."""
    shown = shown_without_version(code, payload) if code == Code.SEND_MESSAGES else None
    return shown if shown in (CLASSIC, BARE_KEYS) else None


def shown_by_v1(code: int, payload: memoryview) -> str | None:
    """Which V1 a session is: CREATE_TOPIC of SDK 0.1 is shorter, and later ones read error texts.

    What is refused because it cannot be read tells nothing.
    """
    if code != Code.CREATE_TOPIC:
        return None
    try:
        if is_short_create_topic(payload):
            return V1_SHORT
        return V1_TEXT if ends_with_name(rest_after(payload, 1), 22) else None
    except BrokerError:
        return None


def _created(rest: memoryview) -> str | None:
    """A name, with an id u32 before it up to SDK 0.7."""
    if ends_with_name(rest, 4) and (
        not ends_with_name(rest, 0) or not CONTROL_CHARACTERS.isdisjoint(rest[1:5])
    ):
        return OLD
    return CLASSIC if ends_with_name(rest, 0) else None


def _created_topic(payload: memoryview) -> str | None:
    rest = rest_after(payload, 1)
    if ends_with_name(rest, 26) and rest[8] in COMPRESSIONS:
        return OLD
    return CLASSIC if ends_with_name(rest, 22) and rest[4] in COMPRESSIONS else None


def _by_size(old: int) -> Callable[[memoryview], str | None]:
    """A request of a consumer; a partition takes one byte more since SDK 0.8."""

    def look(payload: memoryview) -> str | None:
        reader = PayloadReader(payload)
        reader.consumer()
        reader.identifier()
        reader.identifier()
        return {old: OLD, old + 1: CLASSIC}.get(reader.remaining)

    return look


def _sent(payload: memoryview) -> str | None:
    if len(payload) < U32.size:
        return None
    (metadata_size,) = U32.unpack_from(payload)
    if METADATA_SIZE_MIN <= metadata_size <= METADATA_SIZE_MAX:
        return _sent_with_index(payload, U32.size + metadata_size)
    _, _, _, at = read_target(payload, 0, len(payload))
    return OLD if _tiles(payload[at:]) else CLASSIC


def _sent_with_index(payload: memoryview, index_at: int) -> str | None:
    """By the head of the first message: what its lengths leave of it is the size of the head."""
    if index_at + INDEX_ENTRY_SIZE > len(payload):
        return None
    (count,) = U32.unpack_from(payload, index_at - U32.size)
    start = index_at + count * INDEX_ENTRY_SIZE
    lengths = start + LENGTHS_AT
    if count == 0 or lengths + 2 * U32.size > len(payload):
        return None
    _, end, _ = INDEX_ENTRY.unpack_from(payload, index_at)
    (headers_size,) = U32.unpack_from(payload, lengths)
    (payload_size,) = U32.unpack_from(payload, lengths + U32.size)
    sizes = {SHORT_HEADER_SIZE: BARE_KEYS, MESSAGE_HEADER_SIZE: CLASSIC}
    return sizes.get(end - headers_size - payload_size)


def _tiles(messages: memoryview) -> bool:
    """Whether these bytes begin with messages of SDK 0.6, the first few or all of them."""
    at = 0
    for _ in range(LOOKED_AT_MAX):
        payload_at = at + OLD_SENT_HEADER.size
        if payload_at > len(messages):
            return False
        payload_at += OLD_SENT_HEADER.unpack_from(messages, at)[1]
        if payload_at + U32.size > len(messages):
            return False
        (payload_size,) = U32.unpack_from(messages, payload_at)
        at = payload_at + U32.size + payload_size
        if payload_size == 0 or at > len(messages):
            return False
        if at == len(messages):
            break
    return True


SHAPES: Final[Mapping[int, Callable[[memoryview], str | None]]] = {
    Code.CREATE_STREAM: _created,
    Code.CREATE_CONSUMER_GROUP: lambda payload: _created(rest_after(payload, 2)),
    Code.CREATE_TOPIC: _created_topic,
    Code.POLL_MESSAGES: _by_size(18),
    Code.GET_CONSUMER_OFFSET: _by_size(4),
    Code.DELETE_CONSUMER_OFFSET: _by_size(4),
    Code.STORE_CONSUMER_OFFSET: _by_size(12),
    Code.SEND_MESSAGES: _sent,
}
