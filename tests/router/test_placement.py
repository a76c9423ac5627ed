"""Placement: the vectors of the wire and behaviour specifications, and the limits of the ids."""

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.router.placement import (
    PARTITIONS_MAX,
    STREAMS_MAX,
    TOPICS_MAX,
    pack_namespace,
    shard_of,
    unpack_namespace,
)

# ids, namespace, hash, then the owner by number of shards.
VECTORS = [
    ((0, 0, 0), 0, 1669671676, {2: 1, 3: 1, 4: 1, 8: 5, 16: 5}),
    ((0, 0, 1), 1, 1392991556, {2: 1, 3: 0, 4: 3, 8: 7, 16: 7}),
    ((0, 1, 0), 1048576, 989398020, {2: 1, 3: 1, 4: 1, 8: 1, 16: 9}),
    ((1, 1, 1), 4296015873, 2047990105, {2: 1, 3: 1, 4: 1, 8: 1, 16: 1}),
    ((1, 2, 3), 4297064451, 286899562, {2: 1, 3: 0, 4: 1, 8: 1, 16: 9}),
    ((2, 5, 1000), 8595178472, 2352764613, {2: 0, 3: 2, 4: 0, 8: 4, 16: 12}),
    ((7, 0, 42), 30064771114, 2337390082, {2: 1, 3: 1, 4: 1, 8: 1, 16: 1}),
    ((4095, 4095, 999999), 17592185995839, 2499981242, {2: 0, 3: 1, 4: 2, 8: 2, 16: 2}),
    # The second table: the same definition, other partitions.
    ((0, 0, 0), 0, 0x63852AFC, {2: 1, 4: 1, 8: 5, 16: 5}),
    ((0, 0, 1), 1, 0x53075D44, {2: 1, 4: 3, 8: 7, 16: 7}),
    ((0, 0, 2), 2, 0xC61FA2F4, {2: 1, 4: 3, 8: 7, 16: 15}),
    ((0, 0, 3), 3, 0xA33B57B3, {2: 1, 4: 3, 8: 3, 16: 11}),
    ((1, 2, 3), 4297064451, 0x1119BD6A, {2: 1, 4: 1, 8: 1, 16: 9}),
    ((7, 0, 15), 30064771087, 0x69D661AF, {2: 0, 4: 2, 8: 6, 16: 6}),
    ((4095, 4095, 999999), 17592185995839, 0x9502AFBA, {2: 0, 4: 2, 8: 2, 16: 2}),
]


@pytest.mark.parametrize(("ids", "namespace", "hashed", "owners"), VECTORS)
def test_vectors(
    ids: tuple[int, int, int], namespace: int, hashed: int, owners: dict[int, int]
) -> None:
    assert pack_namespace(*ids) == namespace
    assert unpack_namespace(namespace) == ids
    assert mmh3.hash(namespace.to_bytes(8, "little"), 0, signed=False) == hashed
    assert {count: shard_of(namespace, count) for count in owners} == owners


@given(
    st.integers(0, STREAMS_MAX - 1),
    st.integers(0, TOPICS_MAX - 1),
    st.integers(0, PARTITIONS_MAX - 1),
)
def test_packing_loses_nothing(stream: int, topic: int, partition: int) -> None:
    namespace = pack_namespace(stream, topic, partition)
    assert unpack_namespace(namespace) == (stream, topic, partition)
    assert namespace < 1 << 44


@pytest.mark.parametrize(
    "ids",
    [
        (STREAMS_MAX, 0, 0),
        (0, TOPICS_MAX, 0),
        (0, 0, PARTITIONS_MAX),
        (-1, 0, 0),
        (0, -1, 0),
        (0, 0, -1),
    ],
)
def test_ids_beyond_the_limits_are_refused(ids: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="is not below"):
        pack_namespace(*ids)


def test_one_shard_owns_everything_and_none_is_an_error() -> None:
    assert {shard_of(namespace, 1) for namespace in range(100)} == {0}
    with pytest.raises(ValueError, match="no placement"):
        shard_of(0, 0)


def test_every_shard_gets_a_fair_part() -> None:
    owned = [0] * 8
    for partition in range(8000):
        owned[shard_of(pack_namespace(1, 1, partition), 8)] += 1
    assert min(owned) > 800
    assert max(owned) < 1200
