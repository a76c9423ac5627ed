"""The options of the format `iggy` as values: complete, consistent, ready to travel.

Made once, on the driver, by option_table.py. Nothing looks at the raw texts afterwards.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from borzoi.client.address import ServerAddress
from borzoi.protocol.identifiers import Identifier
from borzoi.spark.boundaries import Plan


@dataclass(frozen=True, slots=True)
class Access:
    """Where the broker is, who asks, and how patiently. Travels to the executors."""

    server: ServerAddress
    token: str | None
    timeout_s: float
    retries: int
    retry_interval_s: float

    def __repr__(self) -> str:
        return f"Access({self.server.host}:{self.server.port})"  # nothing that must stay secret


@dataclass(frozen=True, slots=True)
class Topics:
    """Which partitions of one stream: exactly one of the last three is not None.

    `assigned` maps a topic to its partitions; `pattern` has to match the whole name.
    """

    stream: Identifier
    names: tuple[Identifier, ...] | None
    pattern: str | None
    assigned: Mapping[str, tuple[int, ...]] | None


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one batch of a stream takes; None is no limit."""

    rows_max: int | None
    bytes_max: int | None
    rows_min: int
    delay_max_s: float


@dataclass(frozen=True, slots=True)
class Tasks:
    """How ranges become tasks; None is no limit."""

    count_min: int
    count_max: int | None
    rows_max: int | None
    rows_min: int


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    """Sealed segments are read from the broker's data directory, seen from the executors.

    If that is not `required`, a directory that is not there or not of this broker is passed over.
    """

    data_dir: str
    required: bool


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Everything that a reader of the format "iggy" is asked for, with its defaults."""

    access: Access
    topics: Topics
    start: Plan
    end: Plan
    fail_on_data_loss: bool
    limits: Limits
    tasks: Tasks
    include_headers: bool
    headers_as_structs: bool
    columns: tuple[str, ...] | None
    consumer: Identifier | None
    commit_offsets: bool
    metadata_ttl_s: float
    poll_count: int
    verify_checksums: bool
    segments: SegmentFiles | None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """`topic` is None where a column names it. `write_id` makes the ids of a batch write."""

    access: Access
    stream: Identifier
    topic: Identifier | None
    write_id: str | None
