"""MessagePack of values: the bytes and the judgement of msgspec's own codec, never another error.

The metadata log was written by that codec once, so it is the measure here.
"""

from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borzoi.messagepack import NotPacked, pack, unpack
from borzoi.shards.metadata.entries import Stored
from borzoi.shards.metadata.entry_form import ANY_KIND, KINDS, UnknownEntry, stored_command
from borzoi.shards.metadata.state import State
from borzoi.storage.wal import WalEntry
from tests.shards.decisions.commands import small_world
from tests.shards.metadata.drawn import drawn

ORACLE: msgspec.msgpack.Decoder[Stored] = msgspec.msgpack.Decoder(ANY_KIND)

SIMPLE = st.one_of(
    st.sampled_from([-1, 0, 1, 1.0, 1.5, "1", "MQ==", b"", None, True, *KINDS]),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.text(),
    st.binary(),
)
VALUES = st.one_of(
    SIMPLE,
    st.lists(SIMPLE, max_size=3),
    st.dictionaries(st.text() | st.integers(-9, 9), SIMPLE, max_size=3),
)
FIELDS = sorted({name for kind in KINDS.values() for name in kind.__struct_fields__})
MAPS = st.dictionaries(st.sampled_from(FIELDS) | st.text(), VALUES)


def outcome(command: bytes) -> Stored | None:
    """The command in an entry, None if it is refused. Any other error fails the test."""
    try:
        return stored_command(WalEntry(9, 0, 0, 0, 1, command))
    except UnknownEntry:
        return None


def oracle(command: bytes) -> Stored | None:
    try:
        return ORACLE.decode(command)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


@settings(max_examples=300)
@given(data=st.data(), kind=st.sampled_from([*KINDS.values()]))
def test_a_command_has_the_bytes_of_msgspec(data: st.DataObject, kind: Any) -> None:
    command = data.draw(drawn(kind))
    expected = msgspec.msgpack.encode(command)
    assert pack(command) == expected
    assert unpack(expected, kind) == command
    assert outcome(expected) == command


def test_a_state_has_the_bytes_of_msgspec() -> None:
    state = small_world().state
    assert pack(state) == msgspec.msgpack.encode(state)
    assert unpack(pack(state), State) == state


@settings(max_examples=500)
@given(said=MAPS, kind=st.sampled_from([*KINDS]) | VALUES)
def test_maps_are_judged_as_by_msgspec(said: dict[str, object], kind: object) -> None:
    command = msgpack.packb({**said, "kind": kind})
    assert outcome(command) == oracle(command)


@settings(max_examples=500)
@given(data=st.data(), kind=st.sampled_from([*KINDS.values()]))
def test_fields_of_another_type_are_refused_in_the_same_words(
    data: st.DataObject, kind: Any
) -> None:
    plain = msgspec.to_builtins(data.draw(drawn(kind)), builtin_types=(bytes,))
    name = data.draw(st.sampled_from(["kind", *kind.__struct_fields__]))
    value = data.draw(st.sampled_from([1.5, "MQ==", b"x", True, "moon_created", ...]))
    if value is ...:
        plain.pop(name, None)
    else:
        plain[name] = value
    command = msgpack.packb(plain)
    assert outcome(command) == oracle(command)
    assert refusal(command) in refusal_by_entry(command)


def refusal(command: bytes) -> str:
    """What msgspec says against a command, nothing if it has no objection."""
    try:
        ORACLE.decode(command)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def refusal_by_entry(command: bytes) -> str:
    try:
        stored_command(WalEntry(9, 0, 0, 0, 1, command))
    except UnknownEntry as error:
        return str(error)
    return ""


@settings(max_examples=500)
@given(rubbish=st.binary(max_size=64), at=st.integers(0, 80), kind=st.sampled_from([*KINDS]))
def test_changed_bytes_are_refused_or_mean_the_same_as_to_msgspec(
    rubbish: bytes, at: int, kind: str
) -> None:
    whole = msgpack.packb({"kind": kind, "stream_id": 3, "topic_id": 4, "name": "t", "user_id": 1})
    for command in (rubbish, whole[:at], whole[:at] + rubbish + whole[at + len(rubbish) :]):
        found = outcome(command)
        # Stricter in one thing: a name that is not UTF-8 is refused also where it is not known.
        assert found is None or found == oracle(command)


@pytest.mark.parametrize(
    "data",
    [
        b"\x91" * 100_000 + b"\x01",  # nested more deeply than any stack
        b"\x81\xa1x" * 100_000 + b"\x01",
        b"\xdd\xff\xff\xff\xff",  # announces more than there is
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\x81\x80\x01",  # a map is the key of a map
        b"\x81\x91\x80\x01",
        b"\xd6\xff\x00\x00\x00\x01",  # a time
        b"\xc7\x03\xff\x00\x00\x01",  # a time of no known length
        b"\xd4\x07\x00",  # an extension
        b"\xc1",
        b"\xa2\xff\xff",
        b"\x01\x01",
        b"",
    ],
)
def test_hostile_bytes_are_not_packed(data: bytes) -> None:
    with pytest.raises(NotPacked, match=r"\w"):
        unpack(data, State)
    assert outcome(data) is None
    inside = b"\x83\xa4kind\xaestream_deleted\xa9stream_id\x03\xa1x" + data
    assert outcome(inside) in (None, oracle_or_none(inside))


def oracle_or_none(command: bytes) -> Stored | None:
    try:
        return oracle(command)
    except RecursionError:
        return None
