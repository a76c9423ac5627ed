"""The eight kinds of load, with the names, aliases and defaults of iggy-bench.

Values only. `partitions_default` is None where a kind only reads what exists already.
"""

from dataclasses import dataclass
from typing import Final

ACTORS_DEFAULT: Final = 8
BALANCED_PARTITIONS_DEFAULT: Final = 24


@dataclass(frozen=True, slots=True)
class Kind:
    """What a kind does, and how many of everything it has when nothing is said.

    `streams_default` None means one stream per actor. A kind that `pairs` has actors which both
    send and poll, instead of producers beside consumers.
    """

    name: str
    alias: str
    produces: bool
    consumes: bool
    groups: bool
    pairs: bool
    streams_default: int | None
    partitions_default: int | None
    about: str

    @property
    def pretty_name(self) -> str:
        """The name with spaces, for titles."""
        return self.name.replace("-", " ").capitalize()


PINNED_PRODUCER: Final = Kind(
    name="pinned-producer",
    alias="pp",
    produces=True,
    consumes=False,
    groups=False,
    pairs=False,
    streams_default=None,
    partitions_default=1,
    about="Every producer sends to partition 0 of a stream of its own.",
)
PINNED_CONSUMER: Final = Kind(
    name="pinned-consumer",
    alias="pc",
    produces=False,
    consumes=True,
    groups=False,
    pairs=False,
    streams_default=None,
    partitions_default=None,
    about="Every consumer polls a stream of its own by offset, without commits.",
)
PINNED_BOTH: Final = Kind(
    name="pinned-producer-and-consumer",
    alias="ppc",
    produces=True,
    consumes=True,
    groups=False,
    pairs=False,
    streams_default=None,
    partitions_default=1,
    about="Producers and consumers at once, on the same streams.",
)
BALANCED_PRODUCER: Final = Kind(
    name="balanced-producer",
    alias="bp",
    produces=True,
    consumes=False,
    groups=False,
    pairs=False,
    streams_default=1,
    partitions_default=BALANCED_PARTITIONS_DEFAULT,
    about="Producers let the server spread their batches over the partitions.",
)
BALANCED_GROUP: Final = Kind(
    name="balanced-consumer-group",
    alias="bcg",
    produces=False,
    consumes=True,
    groups=True,
    pairs=False,
    streams_default=1,
    partitions_default=None,
    about="Members of consumer groups poll the next messages and commit at once.",
)
BALANCED_BOTH: Final = Kind(
    name="balanced-producer-and-consumer-group",
    alias="bpcg",
    produces=True,
    consumes=True,
    groups=True,
    pairs=False,
    streams_default=1,
    partitions_default=BALANCED_PARTITIONS_DEFAULT,
    about="Balanced producers and consumer groups at once.",
)
END_TO_END: Final = Kind(
    name="end-to-end-producing-consumer",
    alias="e2e",
    produces=True,
    consumes=True,
    groups=False,
    pairs=True,
    streams_default=None,
    partitions_default=1,
    about="Every actor sends a batch, then polls it back.",
)
END_TO_END_GROUP: Final = Kind(
    name="end-to-end-producing-consumer-group",
    alias="e2ecg",
    produces=True,
    consumes=True,
    groups=True,
    pairs=True,
    streams_default=1,
    partitions_default=BALANCED_PARTITIONS_DEFAULT,
    about="Every actor sends a batch, then polls as a member of a consumer group.",
)

KINDS: Final = (
    PINNED_PRODUCER,
    PINNED_CONSUMER,
    PINNED_BOTH,
    BALANCED_PRODUCER,
    BALANCED_GROUP,
    BALANCED_BOTH,
    END_TO_END,
    END_TO_END_GROUP,
)
BY_NAME: Final = {name: kind for kind in KINDS for name in (kind.name, kind.alias)}
