"""Snapshots: equal states, and damage is always noticed."""

import tracemalloc
from pathlib import Path

import pytest

from borzoi.messagepack import pack, unpack
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import DeleteTopic
from borzoi.shards.decisions.commands import CreateToken
from borzoi.shards.metadata.state import State
from borzoi.shards.metadata_log.snapshot import (
    CHECKSUM_SIZE,
    HEADER,
    SNAPSHOT_SIZE_MAX,
    Snapshot,
    SnapshotDamaged,
    dump,
    load,
    read_snapshot,
)
from borzoi.storage.files import Files
from borzoi.storage.wal import EntryPlace
from tests.shards.decisions.commands import World, create_topic, small_world

FILES = Files()
END = EntryPlace(8, 1234)


def busy_state() -> State:
    world = small_world()
    world.run(CreateToken(0, 1000, "token", "h", 0))
    world.run(DeleteTopic(0, "placed"))
    return world.state


def test_round_trip() -> None:
    state = busy_state()
    assert state.slots.counts
    assert state.stream(0).topic_ids.freed
    assert load(dump(state, END)) == Snapshot(state, END)
    assert load(dump(State(), EntryPlace(0, 0))) == Snapshot(State(), EntryPlace(0, 0))


def test_the_state_is_what_messagepack_packs() -> None:
    """One form in bytes, whichever of the two codecs writes it."""
    state = small_world().state
    body = dump(state, EntryPlace(1, 2))[HEADER.size : -CHECKSUM_SIZE]
    assert body == pack(state)
    assert unpack(body, State) == state


def test_every_bit_flipped_and_every_cut() -> None:
    data = dump(small_world().state, END)
    for bit in range(0, len(data) * 8, 3):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(SnapshotDamaged):
            load(bytes(flipped))
    for size in range(len(data)):
        with pytest.raises(SnapshotDamaged):
            load(data[:size])
    with pytest.raises(SnapshotDamaged):
        load(data + b"\0")


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    assert read_snapshot(FILES, path) is None
    FILES.write_atomically(path, dump(busy_state(), END))
    assert read_snapshot(FILES, path) == Snapshot(busy_state(), END)
    with path.open("wb") as file:
        file.truncate(SNAPSHOT_SIZE_MAX + 1)
    with pytest.raises(SnapshotDamaged, match="too many"):
        read_snapshot(FILES, path)


def test_a_topic_costs_little_memory() -> None:
    world = World()
    world.run(CreateStream("s"))
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(1000):
            world.run(create_topic("s", f"topic-{number}", 1000))
        world.entries.clear()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / 1000 < 1500
