"""Commands and a tiny world to run them in, for the tests of this folder."""

from dataclasses import dataclass, field

from borzoi.protocol.commands.groups import CreateConsumerGroup
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreatePartitions, CreateTopic
from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.permissions import ALL_PERMISSIONS, Permissions, UserStatus
from borzoi.shards.decisions.commands import CreateHashedUser
from borzoi.shards.decisions.decide import MetadataCommand, MetadataSettings, decide
from borzoi.shards.metadata.apply import apply
from borzoi.shards.metadata.effects import Effects
from borzoi.shards.metadata.entry_form import new_entry
from borzoi.shards.metadata.state import State
from borzoi.storage.wal import WalEntry

SETTINGS = MetadataSettings(
    segment_size=1000, message_expiry=5_000_000, max_topic_size=123_456, max_tokens_per_user=3
)


@dataclass
class World:
    """Decides and applies, as shard 0 does, without a disk. Time is the index times a thousand."""

    settings: MetadataSettings = SETTINGS
    state: State = field(default_factory=State)
    entries: list[WalEntry] = field(default_factory=list)

    @property
    def index(self) -> int:
        return len(self.entries)

    def run(
        self, command: MetadataCommand, *, user_id: int = 0, timestamp: int | None = None
    ) -> Effects:
        if timestamp is None:
            timestamp = (self.index + 1) * 1000
        stored = decide(
            self.state, command, user_id=user_id, timestamp=timestamp, settings=self.settings
        )
        entry = new_entry(self.index + 1, timestamp, user_id, stored)
        self.entries.append(entry)
        return apply(self.state, entry)


def create_topic(
    stream: Identifier, name: str, partitions_count: int = 1, max_topic_size: int = 0
) -> CreateTopic:
    return CreateTopic(stream, partitions_count, 1, 0, max_topic_size, 0, name)


def create_user(name: str, permissions: Permissions | None = None) -> CreateHashedUser:
    return CreateHashedUser(name, f"hash of {name}", UserStatus.ACTIVE, permissions)


def small_world() -> World:
    """Root, a stream with two topics of 3 + 2 and 1 partitions, and a group in the first."""
    world = World()
    world.run(create_user("root", ALL_PERMISSIONS))
    world.run(CreateStream("orders"))
    world.run(create_topic("orders", "placed", 3))
    world.run(create_topic("orders", "paid", 1))
    world.run(CreatePartitions(0, "placed", 2))
    world.run(CreateConsumerGroup("orders", "placed", "readers"))
    return world
