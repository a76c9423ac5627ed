"""What handlers may use: one bundle per worker, made at its start and never changed."""

from dataclasses import dataclass

from borzoi.shards.changes.service import MetadataService
from borzoi.shards.decisions.topic_options import TopicDefaults
from borzoi.shards.groups.service import Groups
from borzoi.shards.identity.clear_text import ClearText
from borzoi.shards.identity.clients import Clients
from borzoi.shards.identity.logins import Logins
from borzoi.shards.identity.request_numbers import RequestNumbers
from borzoi.shards.loop.clock import BrokerClock
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.observing.cluster import Cluster
from borzoi.shards.observing.snapshots import Snapshots
from borzoi.shards.observing.statistics import Statistics
from borzoi.shards.orders.migration import Migration
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.ports.append import Appends
from borzoi.shards.ports.doubtful_sends import DoubtfulSends
from borzoi.shards.ports.owners import PartitionOwners
from borzoi.shards.ports.partitioning import SendTargets
from borzoi.shards.ports.reads import Reads
from borzoi.shards.reading.describe import Describer
from borzoi.shards.settings.schema import Compression
from borzoi.shards.tallies.consumer_names import ConsumerNames
from borzoi.shards.tallies.meters import Meters


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of a worker, by what they do for a request."""

    appends: Appends
    clear_text: ClearText
    clients: Clients
    clock: BrokerClock
    cluster: Cluster
    compression: Compression
    consumer_names: ConsumerNames
    describer: Describer
    doubtful_sends: DoubtfulSends
    durability: Durability
    groups: Groups
    logins: Logins
    meters: Meters
    metadata: MetadataService
    migration: Migration
    numbers: RequestNumbers
    owners: PartitionOwners
    reads: Reads
    send_targets: SendTargets
    snapshots: Snapshots
    statistics: Statistics
    tasks: Tasks
    topic_defaults: TopicDefaults
