"""What the supervisor does before it starts workers: it looks whether the store is fit, and ours.

Runs under the lock of the data directory. It brings the metadata to an empty disk, so that the rest
of the start finds a broker that was here before. A set-up that would lose messages is refused.
"""

import asyncio
import logging
import os
from typing import Final

from borzoi.cluster.check_store import Verdict, check
from borzoi.cluster.driver import Driver
from borzoi.cluster.identity import Membership, join, sign_in
from borzoi.cluster.lane import LaneDamaged
from borzoi.cluster.opening_stores import open_store
from borzoi.cluster.stores import SlotStore, StoreRefused, StoreUnreachable
from borzoi.shards.replication.metadata import open_meta
from borzoi.shards.settings.errors import ConfigError
from borzoi.shards.settings.schema import Config
from borzoi.storage.archive.manifest import ManifestDamaged, decode, encode
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout

LOG: Final = logging.getLogger(__name__)

LANES_MIN: Final = 12
CHECK_ROUNDS: Final = 3
CHECK_WRITERS: Final = 4
START_TIMEOUT_S: Final = 60.0
MEMBERSHIP_SIZE_MAX: Final = 1 << 16


def prepare(config: Config, shard_count: int, layout: DataLayout, files: Files) -> None:
    """Make a data directory ready for its cluster. ConfigError says why it cannot be."""
    try:
        asyncio.run(_prepare(config, shard_count, layout, files))
    except TimeoutError as error:
        raise ConfigError(
            f"replication.store is {config.replication.store}: it does not answer"
        ) from error
    except (StoreRefused, StoreUnreachable, LaneDamaged, ManifestDamaged) as error:
        raise ConfigError(f"replication: {error}") from error


async def _prepare(config: Config, shard_count: int, layout: DataLayout, files: Files) -> None:
    store = store_of(config)
    async with asyncio.timeout(START_TIMEOUT_S):
        member = membership(layout, files)
        if member is None and holds_data(layout, files):
            raise ConfigError(
                f"{layout.root} is the data directory of a single node: replication needs an empty"
                " one, and `borzoi` copies messages from broker to broker"
            )
        await _check(store)
        facts = await join(
            store,
            config.replication.cluster,
            _lanes(config, shard_count),
            may_found=member is None,
        )
    if member is not None and member.cluster != facts:
        raise ConfigError(
            f"{layout.root} is a copy of cluster {member.cluster.id}, and {store.name} belongs to"
            f" cluster {facts.id}: needs the store or the directory of the other"
        )
    if facts.lanes % shard_count:
        raise ConfigError(
            f"the cluster has {facts.lanes} lanes, which {shard_count} shards cannot share evenly:"
            f" needs a number of shards that divides {facts.lanes}"
        )
    node = config.replication.node
    files.write_atomically(layout.membership, encode(Membership(cluster=facts, node=node)))
    await sign_in(store, node, os.urandom(8).hex())
    _, replay = await open_meta(Driver(store), facts.window, layout, files)
    LOG.info(
        "node %s of cluster %s on %s: %d metadata entries",
        node,
        facts.id,
        store.name,
        replay.last_index,
    )


async def _check(store: SlotStore) -> None:
    report = await check(store, CHECK_ROUNDS, CHECK_WRITERS, samples=1)
    for one in report.checks:
        if one.verdict is Verdict.WARNING:
            LOG.warning("%s: %s", store.name, one.says)
    if not report.fits:
        why = "; ".join(one.says for one in report.checks if one.verdict is Verdict.BAD)
        raise StoreRefused(f"{store.name} would lose messages: {why}")


def store_of(config: Config) -> SlotStore:
    """The store that the configuration names."""
    settings = config.replication
    return open_store(settings.store, settings.endpoint, settings.region)


def membership(layout: DataLayout, files: Files) -> Membership | None:
    """Whose copy this directory is, None if it is none."""
    data = files.read_all(layout.membership, MEMBERSHIP_SIZE_MAX)
    return None if data is None else decode(data, Membership)


def holds_data(layout: DataLayout, files: Files) -> bool:
    """Whether there is metadata, or a partition."""
    return bool(files.read_all(layout.state_log, 1)) or any(layout.partition_directories(files))


def _lanes(config: Config, shard_count: int) -> int:
    wanted = config.replication.lanes
    if wanted % shard_count:
        raise ConfigError(
            f"replication.lanes is {wanted}: needs a multiple of the {shard_count} shards"
        )
    return wanted or -(-LANES_MIN // shard_count) * shard_count
