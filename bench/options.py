"""Everything a run of a kind was asked for, as one value, with the defaults of its kind.

Pure. resolve() turns what stood on the command line into Options or says what does not fit.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from borzoi.bench.kinds import ACTORS_DEFAULT, Kind
from borzoi.bench.plans import CLASSIC, QUIC, Credentials
from borzoi.bench.quantities import Range

MESSAGE_BATCHES_DEFAULT: Final = 1_000
TRANSPORT: Final = "tcp"
OF_EVERY_KIND: Final = frozenset({"tcp", "tls", "ws", "wss", QUIC})
"""The binary protocol, with groups and pairs; over HTTP an actor sends or polls."""


class OptionsConflict(Exception):
    """Options that exclude each other; the text names them."""


@dataclass(frozen=True, slots=True)
class Output:
    """Where the report goes and what it is called."""

    directory: Path | None = None
    identifier: str = ""
    remark: str = ""
    extra_info: str = ""
    gitref: str = ""
    gitref_date: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    """`address` None: a broker of our own. Exactly one of batches, total data, duration is set."""

    kind: Kind
    message_size: Range
    messages_per_batch: Range
    message_batches: int | None
    total_data: int | None
    duration_ns: int | None
    rate_limit: int | None
    warmup_ns: int
    sampling_ns: int
    window: int
    streams: int
    partitions: int | None
    producers: int
    consumers: int
    groups: int
    credentials: Credentials
    address: tuple[str, int] | None
    shards: int | None
    reuse_streams: bool
    with_limits: bool
    max_topic_size: int | None
    message_expiry_us: int | None
    read_amplification: float
    generation: str = CLASSIC
    transport: str = TRANSPORT
    ca_file: str = ""
    command: str = ""
    directory: Path | None = None
    output: Output = field(default_factory=Output)

    @property
    def batch_bytes(self) -> float:
        """User data of a batch, on average."""
        return self.message_size.middle * self.messages_per_batch.middle

    @property
    def actor_count(self) -> int:
        """How many connections the load has."""
        if self.kind.pairs:
            return max(self.producers, self.consumers)
        return self.producers + self.consumers


def resolve(
    kind: Kind,
    *,
    message_size: Range,
    messages_per_batch: Range,
    message_batches: int | None,
    total_data: int | None,
    duration_ns: int | None,
    streams: int | None,
    partitions: int | None,
    producers: int | None,
    consumers: int | None,
    groups: int | None,
    **rest: object,
) -> Options:
    """Fill in what the kind says when nothing was said."""
    said = {"-b": message_batches, "--total-data": total_data, "--duration": duration_ns}
    given = [name for name, value in said.items() if value is not None]
    if len(given) > 1:
        raise OptionsConflict(f"{' and '.join(given)} exclude each other")
    if not given:
        message_batches = MESSAGE_BATCHES_DEFAULT
    if partitions is not None and kind.partitions_default is None:
        raise OptionsConflict(f"{kind.name} reads what exists: --partitions has no meaning")
    for name, value, meant in (
        ("--producers", producers, kind.produces),
        ("--consumers", consumers, kind.consumes and not (kind.pairs and not kind.groups)),
        ("--consumer-groups", groups, kind.groups),
    ):
        if value is not None and not meant:
            raise OptionsConflict(f"{kind.name} has no {name}")
    if rest.get("generation", CLASSIC) != CLASSIC and (kind.groups or kind.pairs):
        raise OptionsConflict(f"{kind.name} is measured with classic requests only")
    _check_transport(kind, rest)
    producers = (producers or ACTORS_DEFAULT) if kind.produces else 0
    consumers = (consumers or ACTORS_DEFAULT) if kind.consumes else 0
    if kind.pairs and not kind.groups:
        consumers = producers
    wanted = producers or consumers
    return Options(
        kind=kind,
        message_size=message_size,
        messages_per_batch=messages_per_batch,
        message_batches=message_batches,
        total_data=total_data,
        duration_ns=duration_ns,
        streams=streams or kind.streams_default or wanted,
        partitions=partitions or kind.partitions_default,
        producers=producers,
        consumers=consumers,
        groups=(groups or 1) if kind.groups else 0,
        **rest,  # type: ignore[arg-type]  # the rest of the fields, each with its own name
    )


def _check_transport(kind: Kind, given: dict[str, object]) -> None:
    transport = given.get("transport", TRANSPORT)
    if transport == QUIC and given.get("generation", CLASSIC) != CLASSIC:
        raise OptionsConflict("--transport quic has no generations")
    if transport in OF_EVERY_KIND:
        return
    if kind.groups or kind.pairs:
        raise OptionsConflict(f"{kind.name} is measured without HTTP only")
    if given.get("address") is not None:
        raise OptionsConflict(f"--transport {transport} is measured on a broker of our own only")
    if given.get("generation", CLASSIC) != CLASSIC:
        raise OptionsConflict(f"--transport {transport} has no generations")


def parse_address(text: str) -> tuple[str, int]:
    """Returns host and port of `host:port`; else raises ValueError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"{text!r} is no address: needs host:port")
    return host.strip("[]"), int(port)
