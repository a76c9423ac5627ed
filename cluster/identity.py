"""Which cluster a prefix of a store belongs to: `cluster.json`, put once and never changed.

    cluster.json          {"format":1,"id":"<32 hex>","lanes":12,"window":8}, and its SHA-256
    nodes/<name>.json     the node that began last under this name; overwritten by that node alone

A node keeps the same facts in its data directory, with its name. By them a directory is known to
hold a copy of this cluster, and no data of its own.
"""

import os
import re
from typing import Final

import msgspec

from borzoi.cluster.operations import PutResult
from borzoi.cluster.stores import SlotStore, StoreRefused, StoreUnreachable
from borzoi.storage.archive.manifest import FORMAT, ManifestDamaged, decode, encode

CLUSTER_KEY: Final = "cluster.json"
NODES_PREFIX: Final = "nodes"
LANES_PREFIX: Final = "lanes"
WINDOW: Final = 8
ID: Final = re.compile(r"[0-9a-f]{32}")


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What never changes about a cluster."""

    format: int = FORMAT
    id: str
    lanes: int
    window: int = WINDOW


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """Whose copy a data directory is, and under which name its node takes part."""

    format: int = FORMAT
    cluster: ClusterFacts
    node: str


async def join(
    store: SlotStore, wanted_id: str, lanes: int, *, may_found: bool = True
) -> ClusterFacts:
    """The facts of the cluster on this store; put there if the prefix is empty.

    `wanted_id` may be empty: any cluster, or one with a new id. StoreRefused if the prefix belongs
    to another cluster, or to nothing that is known; or if it is empty, unless it `may_found` one.
    """
    found = await store.get(CLUSTER_KEY)
    if found is None:
        if not may_found:
            raise StoreRefused(f"{store.name} has no {CLUSTER_KEY}: it is not mounted, or emptied")
        if await store.list(LANES_PREFIX):
            raise StoreRefused(f"{store.name} has lanes and no {CLUSTER_KEY}: it is damaged")
        facts = ClusterFacts(id=wanted_id or os.urandom(16).hex(), lanes=lanes)
        if await store.put_if_absent(CLUSTER_KEY, encode(facts)) is PutResult.UNKNOWN:
            raise StoreUnreachable(f"{store.name}: it is not known whether {CLUSTER_KEY} was put")
        # Another node may have been faster.
        found = await store.get(CLUSTER_KEY)
    facts = facts_in(found or b"", store.name)
    if wanted_id and facts.id != wanted_id:
        raise StoreRefused(f"{store.name} belongs to cluster {facts.id}, not to {wanted_id}")
    return facts


def facts_in(data: bytes, place: str) -> ClusterFacts:
    """The facts in these bytes. StoreRefused if they are anything else."""
    try:
        facts = decode(data, ClusterFacts)
    except ManifestDamaged as error:
        raise StoreRefused(f"{place}/{CLUSTER_KEY} cannot be used: {error}") from error
    if facts.lanes < 1 or facts.window < 1 or ID.fullmatch(facts.id) is None:
        raise StoreRefused(f"{place}/{CLUSTER_KEY} contradicts itself")
    return facts


async def sign_in(store: SlotStore, node: str, incarnation: str) -> None:
    """Leave the name of a node that begins; only other nodes' error texts depend on it."""
    body = msgspec.json.encode({"format": FORMAT, "node": node, "incarnation": incarnation})
    await store.put(f"{NODES_PREFIX}/{node}.json", body)


async def newest_node(store: SlotStore) -> str:
    """The node that began last, as far as the store says."""
    found = await store.list(NODES_PREFIX)
    newest = max(found, key=lambda one: one.modified_s, default=None)
    return "" if newest is None else newest.key.rpartition("/")[2].removesuffix(".json")
