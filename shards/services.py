"""What handlers may use: one bundle per worker, made at its start and never changed."""

from dataclasses import dataclass

from borzoi.router.pool import MemoryPool
from borzoi.shards.clients import Clients
from borzoi.shards.clock import BrokerClock
from borzoi.shards.cluster import Cluster
from borzoi.shards.config.schema import Compression
from borzoi.shards.describe import Describer
from borzoi.shards.durability import Durability
from borzoi.shards.groups.service import Groups
from borzoi.shards.logins import Logins
from borzoi.shards.metadata_service import MetadataService
from borzoi.shards.migration import Migration
from borzoi.shards.owners import Owners
from borzoi.shards.polls import Polls
from borzoi.shards.sends import Sends
from borzoi.shards.snapshots import Snapshots
from borzoi.shards.statistics import Statistics
from borzoi.shards.tasks import Tasks


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of a worker, by what they do for a request."""

    clients: Clients
    clock: BrokerClock
    cluster: Cluster
    compression: Compression
    describer: Describer
    durability: Durability
    groups: Groups
    logins: Logins
    metadata: MetadataService
    migration: Migration
    owners: Owners
    polls: Polls
    pool: MemoryPool
    sends: Sends
    snapshots: Snapshots
    statistics: Statistics
    tasks: Tasks
