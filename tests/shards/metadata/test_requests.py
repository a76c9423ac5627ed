"""A numbered change is known by every copy of the state: its entry and what it gave out."""

import msgspec
import pytest

from borzoi.messagepack import pack, unpack
from borzoi.shards.metadata import requests
from borzoi.shards.metadata.apply import apply
from borzoi.shards.metadata.entries import (
    GroupCreated,
    Stored,
    StreamCreated,
    StreamDeleted,
    TopicCreated,
    UserCreated,
    UserDeleted,
)
from borzoi.shards.metadata.entry_form import UnknownEntry, new_entry, read_entry
from borzoi.shards.metadata.requests import Made, RequestKey
from borzoi.shards.metadata.state import State
from borzoi.storage.wal import WalEntry

CLIENT = bytes(range(16))
STEPS: tuple[tuple[Stored, int], ...] = (
    (UserCreated(0, "root", "hash", 1), 0),
    (UserCreated(1, "ann", "hash", 1), 1),
    (StreamCreated(0, "first"), 0),
    (StreamCreated(1, "second"), 1),
    (TopicCreated(1, 0, "one", 1, 1, 0, 0, 1), 0),
    (TopicCreated(1, 1, "two", 1, 1, 0, 0, 1), 1),
    (GroupCreated(1, 1, 0, "group"), 0),
    (StreamDeleted(1), 0),
)


def made(steps: tuple[tuple[Stored, int], ...] = STEPS) -> State:
    state = State()
    for number, (stored, _) in enumerate(steps, 1):
        apply(state, new_entry(number, 5, 0, stored, RequestKey(CLIENT, number)))
    return state


def test_the_last_change_of_a_client_is_known_with_what_it_gave_out() -> None:
    for count in range(1, len(STEPS) + 1):
        state = made(STEPS[:count])
        assert state.made_by(0, RequestKey(CLIENT, count)) == Made(
            count, count, STEPS[count - 1][1]
        )
        assert state.made_by(0, RequestKey(CLIENT, count - 1)) is None
        assert state.made_by(0, RequestKey(CLIENT, count + 1)) is None


def test_another_user_or_client_has_made_nothing() -> None:
    state, last = made(), len(STEPS)
    assert state.made_by(1, RequestKey(CLIENT, last)) is None
    assert state.made_by(0, RequestKey(CLIENT[::-1], last)) is None


def test_a_user_that_is_removed_takes_its_requests_along() -> None:
    state = made()
    apply(state, new_entry(9, 5, 1, StreamCreated(1, "of ann"), RequestKey(CLIENT, 1)))
    assert state.made_by(1, RequestKey(CLIENT, 1)) == Made(1, 9, 1)
    apply(state, new_entry(10, 5, 0, UserDeleted(1)))
    assert state.made_by(1, RequestKey(CLIENT, 1)) is None
    assert state.made_by(0, RequestKey(CLIENT, len(STEPS))) is not None


def test_so_many_clients_are_remembered() -> None:
    state = made(STEPS[:1])
    for number in range(requests.CLIENTS_MAX + 2):
        stored = StreamCreated(number, f"s{number}")
        request = RequestKey(number.to_bytes(16, "little"), 7)
        apply(state, new_entry(number + 2, 5, 0, stored, request))
    assert not isinstance(state.requests, msgspec.UnsetType)
    assert len(state.requests) == requests.CLIENTS_MAX
    assert state.made_by(0, RequestKey((1).to_bytes(16, "little"), 7)) is None
    assert state.made_by(0, RequestKey((2).to_bytes(16, "little"), 7)) == Made(7, 4, 2)


def test_a_snapshot_keeps_them() -> None:
    state = made()
    assert unpack(pack(state), State) == state
    assert pack(state) == msgspec.msgpack.encode(state)


def test_without_numbers_the_bytes_are_what_they_were() -> None:
    stored = StreamCreated(1, "s")
    assert new_entry(1, 0, 0, stored).command == pack(stored)
    state = State()
    apply(state, new_entry(1, 0, 0, StreamCreated(0, "s")))
    assert b"request" not in pack(state)


def test_an_entry_is_read_with_its_request() -> None:
    request = RequestKey(CLIENT, 2**64 - 1)
    entry = new_entry(1, 0, 0, StreamCreated(1, "s"), request)
    assert read_entry(entry) == (StreamCreated(1, "s"), request)


@pytest.mark.parametrize("said", [7, ("text", 1), (CLIENT,), (CLIENT, -1.5)])
def test_a_request_that_is_none_is_refused(said: object) -> None:
    plain = {**msgspec.to_builtins(StreamCreated(1, "s")), "request": said}
    with pytest.raises(UnknownEntry, match="entry 1 of the metadata log"):
        read_entry(WalEntry(1, 0, 0, 0, 1, pack(plain)))
