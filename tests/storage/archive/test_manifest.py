"""Keys and manifests: what they say, and that nothing else is taken for one."""

import pytest

from borzoi.storage.archive.catalogue import (
    DAY_S,
    STATES_KEPT,
    ArchivedState,
    archived_states,
    gaps,
    read_offsets,
    read_segment_manifest,
    read_state_manifest,
    superfluous,
)
from borzoi.storage.archive.copying import put_bytes
from borzoi.storage.archive.manifest import (
    FileRecord,
    Life,
    ManifestDamaged,
    OffsetsManifest,
    PartitionOffsets,
    SegmentManifest,
    StateManifest,
    decode,
    encode,
    offsets_key,
    segment_key,
    segment_manifest_key,
    state_entry,
    state_manifest_key,
)
from tests.storage.archive.stores import MemoryStore

LIFE = Life(1, 2, 3, 44)
MANIFEST = SegmentManifest(
    birth=44,
    first_offset=7,
    message_count=5,
    size_bytes=500,
    first_timestamp=10,
    last_timestamp=20,
    archived_at=30,
    files=(FileRecord(f"{7:020d}.log", 500, "ab"),),
)


def test_keys_mirror_the_layout() -> None:
    key = segment_manifest_key(LIFE, 7)
    assert key == "streams/1/topics/2/partitions/3/44/00000000000000000007.json"
    assert segment_key(key) == (LIFE, 7, True)
    assert segment_key(key.replace(".json", ".log.zstd")) == (LIFE, 7, False)
    assert state_entry(state_manifest_key(12)) == 12


@pytest.mark.parametrize(
    "key",
    [
        "streams/1/topics/2/partitions/3/00000000000000000007.json",
        "streams/1/topics/2/partitions/3/44/7.json",
        "streams/01/topics/2/partitions/3/44/00000000000000000007.json",
        "streams/1/other/2/partitions/3/44/00000000000000000007.json",
        "streams/1/topics/2/partitions/3/44/sub/00000000000000000007.json",
        "state/12.json",
        "archive.json",
    ],
)
def test_other_keys_are_nobodys(key: str) -> None:
    assert segment_key(key) is None
    assert state_entry(key) is None


def test_every_flipped_bit_of_a_manifest_is_noticed() -> None:
    data = encode(MANIFEST)
    assert decode(data, SegmentManifest) == MANIFEST
    for bit in range(len(data) * 8):
        spoiled = bytearray(data)
        spoiled[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ManifestDamaged):
            decode(bytes(spoiled), SegmentManifest)
    for size in range(len(data)):
        with pytest.raises(ManifestDamaged):
            decode(data[:size], SegmentManifest)


def test_a_manifest_of_a_later_version_is_not_guessed_at() -> None:
    with pytest.raises(ManifestDamaged, match="format 2"):
        decode(encode(StateManifest(format=2, entry=1, archived_at=0, files=())), StateManifest)


@pytest.mark.parametrize("name", ["../../birth", "birth", f"{7:020d}.x/../../y", f"{8:020d}.log"])
def test_a_manifest_names_files_of_its_own_segment_only(name: str) -> None:
    store = MemoryStore()
    files = (FileRecord(name, 1, "ab"),)
    manifest = SegmentManifest(
        **{**{f: getattr(MANIFEST, f) for f in MANIFEST.__struct_fields__}, "files": files}
    )
    put_bytes(store, segment_manifest_key(LIFE, 7), encode(manifest))
    with pytest.raises(ManifestDamaged):
        read_segment_manifest(store, LIFE, 7)


def test_a_manifest_in_the_wrong_place_is_damage() -> None:
    store = MemoryStore()
    put_bytes(store, segment_manifest_key(LIFE, 8), encode(MANIFEST))
    put_bytes(
        store,
        state_manifest_key(5),
        encode(StateManifest(entry=4, archived_at=0, files=(FileRecord("..", 0, ""),))),
    )
    with pytest.raises(ManifestDamaged):
        read_segment_manifest(store, LIFE, 8)
    with pytest.raises(ManifestDamaged):
        read_state_manifest(store, 5)
    assert [one.entry for one in archived_states(store)] == [5]


def test_old_states_are_thinned_to_one_a_day() -> None:
    hourly = [ArchivedState(number, number * 3600.0) for number in range(1, 24 * 4)]
    gone = superfluous(hourly)
    kept = [state.entry for state in hourly if state.entry not in gone]
    assert kept[-STATES_KEPT:] == list(range(72, 96))
    assert kept[:-STATES_KEPT] == [23, 47, 71]
    assert superfluous(hourly[:STATES_KEPT]) == []
    assert DAY_S == 24 * 3600


def test_gaps_between_segments() -> None:
    def at(first: int, count: int) -> SegmentManifest:
        return decode(
            encode(
                SegmentManifest(
                    birth=1,
                    first_offset=first,
                    message_count=count,
                    size_bytes=0,
                    first_timestamp=0,
                    last_timestamp=0,
                    archived_at=0,
                    files=(),
                )
            ),
            SegmentManifest,
        )

    assert list(gaps([at(3, 4), at(7, 7), at(21, 1)])) == [(14, 21)]
    assert list(gaps([])) == []


def test_offsets_of_another_number_of_shards_are_of_the_past() -> None:
    store = MemoryStore()
    for shard, shard_count, at, partition in ((0, 2, 50, 0), (1, 2, 60, 1), (2, 4, 40, 2)):
        row = PartitionOffsets(1, 1, partition, 9, ((1, 5, 77),))
        one = OffsetsManifest(shard_count=shard_count, archived_at=at, partitions=(row,))
        put_bytes(store, offsets_key(shard), encode(one))
    found = read_offsets(store)
    assert sorted(found) == [Life(1, 1, 0, 9), Life(1, 1, 1, 9)]
    assert found[Life(1, 1, 1, 9)].committed == ((1, 5, 77),)
    assert read_offsets(MemoryStore()) == {}


def test_damaged_offsets_cost_themselves_only_where_damage_is_reported() -> None:
    store = MemoryStore()
    for shard in range(2):
        row = PartitionOffsets(1, 1, shard, 9, ((1, 5, 77),))
        one = OffsetsManifest(shard_count=2, archived_at=50, partitions=(row,))
        put_bytes(store, offsets_key(shard), encode(one))
    put_bytes(store, offsets_key(0), b"{}")
    with pytest.raises(ManifestDamaged, match=offsets_key(0)):
        read_offsets(store)
    reported: list[ManifestDamaged] = []
    assert sorted(read_offsets(store, reported.append)) == [Life(1, 1, 1, 9)]
    assert len(reported) == 1
