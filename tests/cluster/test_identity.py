"""Whose prefix of a store it is."""

import asyncio
from pathlib import Path

import pytest

from borzoi.cluster.identity import ClusterFacts, join, newest_node, sign_in
from borzoi.cluster.opening_stores import open_store
from borzoi.cluster.stores import BucketSlots, DirectorySlots, StoreRefused

ID = "0123456789abcdef" * 2


def test_the_first_node_founds_a_cluster_and_others_join_it(tmp_path: Path) -> None:
    async def run() -> None:
        store = DirectorySlots(str(tmp_path))
        facts = await join(store, "", 24)
        assert facts == ClusterFacts(id=facts.id, lanes=24, window=8)
        assert await join(store, "", 12) == facts
        assert await join(store, facts.id, 12, may_found=False) == facts
        with pytest.raises(StoreRefused, match=f"belongs to cluster {facts.id}, not to {ID}"):
            await join(store, ID, 24)

    asyncio.run(run())


def test_an_id_may_be_asked_for(tmp_path: Path) -> None:
    assert asyncio.run(join(DirectorySlots(str(tmp_path)), ID, 3)).id == ID


def test_an_empty_store_is_none_for_a_node_that_has_been_in_a_cluster(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match="not mounted, or emptied"):
        asyncio.run(join(DirectorySlots(str(tmp_path)), ID, 3, may_found=False))
    assert not (tmp_path / "cluster.json").exists()


def test_lanes_without_a_cluster_are_not_touched(tmp_path: Path) -> None:
    store = DirectorySlots(str(tmp_path))
    asyncio.run(store.put("lanes/0000/wal/1", b"x"))
    with pytest.raises(StoreRefused, match="has lanes and no"):
        asyncio.run(join(store, "", 3))


@pytest.mark.parametrize("damage", [b"", b"{}\n", b'{"format":1,"id":"x","lanes":1}\nabc\n'])
def test_damaged_facts_are_refused(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "cluster.json").write_bytes(damage)
    with pytest.raises(StoreRefused, match="cannot be used"):
        asyncio.run(join(DirectorySlots(str(tmp_path)), "", 3))


def test_nodes_leave_their_names(tmp_path: Path) -> None:
    async def run() -> str:
        store = DirectorySlots(str(tmp_path))
        assert await newest_node(store) == ""
        await sign_in(store, "a", "1")
        return await newest_node(store)

    assert asyncio.run(run()) == "a"


def test_stores_have_texts(tmp_path: Path) -> None:
    assert open_store(str(tmp_path)).name == str(tmp_path)
    assert open_store(f"file://{tmp_path}").name == str(tmp_path)
    assert isinstance(open_store("s3://b/p/", "http://127.0.0.1:1", "r"), BucketSlots)
    for text in ("", "ftp://x", "s3://", "file://host/x"):
        with pytest.raises(StoreRefused):
            open_store(text)
