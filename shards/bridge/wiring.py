"""The parts of the Liftbridge door of one shard, made and put together."""

import asyncio

from borzoi.liftbridge.server import CONSUMER_TIMEOUT_S
from borzoi.shards.bridge.cursors import CursorWriting
from borzoi.shards.bridge.door import BridgeDoor
from borzoi.shards.bridge.members import MemberWatch
from borzoi.shards.bridge.seats import Seats
from borzoi.shards.bridge.store import BridgeStore
from borzoi.shards.config import Config
from borzoi.shards.handlers.services import Services
from borzoi.shards.host.file_limits import affordable
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.ports.arrivals import Arrivals
from borzoi.shards.rings.gather import answers
from borzoi.shards.rings.peers import Peers


def new_door(
    shard: int,
    config: Config,
    loop: asyncio.AbstractEventLoop,
    services: Services,
    peers: Peers,
) -> BridgeDoor:
    """The door of a shard, which does not listen yet."""
    arrivals = Arrivals(
        loop,
        services.describer.published_at,
        is_buffered=services.durability is Durability.BUFFERED,
        before_look=services.metadata.refresh,
    )
    members = MemberWatch(loop, shard, services.metadata, peers.ask, CONSUMER_TIMEOUT_S)
    seats = Seats(lambda request: answers(peers, request))
    store = BridgeStore(
        services,
        arrivals,
        CursorWriting(services.metadata),
        members,
        seats,
        config.liftbridge.stream,
        config.system.segment.size,
        encrypts=config.system.encryption.enabled,
    )
    limits = affordable(config.limits)
    parts = (services, store, arrivals, members, seats)
    door = BridgeDoor(loop, *parts, config.liftbridge, limits)
    if config.liftbridge.nats.servers:
        # nats-py is for those who want it.
        from borzoi.shards.bridge.nats_wiring import new_nats

        nats = new_nats(shard, config.liftbridge.nats, services, door.publishing, peers)
        store.on_attached = nats.settle_everywhere
        door.nats = nats
    return door
