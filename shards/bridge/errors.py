"""Errors of the broker as Liftbridge knows them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from borzoi.liftbridge import ports
from borzoi.protocol.errors import (
    BrokerError,
    CannotReadPartitions,
    ConsumerGroupIdNotFound,
    ConsumerGroupMemberNotFound,
    ConsumerGroupNameAlreadyExists,
    FeatureUnavailable,
    InvalidOffset,
    NoPartitions,
    PartitionNotFound,
    ShardCommunicationError,
    StreamIdNotFound,
    TopicIdNotFound,
    TopicNameAlreadyExists,
    Unauthenticated,
    Unauthorized,
)
from borzoi.shards.rings.asking import Abandoned

MEANINGS: Final[dict[int, type[ports.PortError]]] = {
    Unauthenticated.status: ports.NotAllowed,
    Unauthorized.status: ports.NotAllowed,
    TopicNameAlreadyExists.status: ports.AlreadyThere,
    ConsumerGroupNameAlreadyExists.status: ports.AlreadyThere,
    StreamIdNotFound.status: ports.PlaceGone,
    TopicIdNotFound.status: ports.PlaceGone,
    NoPartitions.status: ports.PlaceGone,
    PartitionNotFound.status: ports.PlaceGone,
    CannotReadPartitions.status: ports.Failed,
    FeatureUnavailable.status: ports.ReadOnly,
    InvalidOffset.status: ports.WrongOffset,
    ConsumerGroupIdNotFound.status: ports.NoGroup,
    ConsumerGroupMemberNotFound.status: ports.NotAMember,
    ShardCommunicationError.status: ports.Unavailable,
}


@contextmanager
def as_port_errors() -> Iterator[None]:
    """Turn errors of the broker into those of the ports."""
    try:
        yield
    except BrokerError as error:
        raise MEANINGS.get(error.status, ports.Failed)(str(error)) from error
    except Abandoned as error:
        raise ports.Unavailable(
            "the owner of the partition died; the outcome is unknown"
        ) from error
