"""Errors as HTTP answers: which status, which body. Pure.

    {"id":1009,"code":"stream_id_not_found","reason":"...","field":"stream_id"}

Bodies and queries that cannot be read are answered with plain text, a missing or bad token with
nothing but 401. Always: an ordinary error is never a 5xx, which official clients would retry.
"""

import re
from typing import Final

import msgspec

from borzoi.protocol.errors import BrokerError
from borzoi.protocol.statuses import STATUSES

JSON: Final = "application/json"
PLAIN: Final = "text/plain; charset=utf-8"

NOT_FOUND: Final = frozenset(
    {
        "StreamIdNotFound",
        "TopicIdNotFound",
        "PartitionNotFound",
        "SegmentNotFound",
        "ClientNotFound",
        "ConsumerGroupIdNotFound",
        "ConsumerGroupNameNotFound",
        "ConsumerGroupMemberNotFound",
        "ConsumerOffsetNotFound",
        "ResourceNotFound",
    }
)
NOT_LOGGED_IN: Final = frozenset(
    {
        "Unauthenticated",
        "AccessTokenMissing",
        "InvalidAccessToken",
        "InvalidPersonalAccessToken",
    }
)
FIELDS: Final = {
    "StreamIdNotFound": "stream_id",
    "InvalidStreamId": "stream_id",
    "TopicIdNotFound": "topic_id",
    "InvalidTopicId": "topic_id",
    "PartitionNotFound": "partition_id",
    "SegmentNotFound": "segment_id",
    "ClientNotFound": "client_id",
    "InvalidStreamName": "name",
    "StreamNameAlreadyExists": "name",
    "InvalidTopicName": "name",
    "TopicNameAlreadyExists": "name",
    "ConsumerGroupNameAlreadyExists": "name",
    "PersonalAccessTokenAlreadyExists": "name",
    "InvalidOffset": "offset",
    "InvalidConsumerGroupId": "consumer_group_id",
    "UserAlreadyExists": "username",
}
UNAUTHORIZED: Final = "Unauthorized"


class ErrorBody(msgspec.Struct, frozen=True):
    """What a client reads of an error."""

    id: int
    code: str
    reason: str
    field: str | None


class Failure(Exception):
    """A request that ends with this answer."""

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        content_type: str = PLAIN,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(status, body)
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers or {}


def failure_of(error: BrokerError, reason: str = "") -> Failure:
    """The answer to a request that failed so; `reason` in place of what the error says."""
    name = STATUSES[error.status].name
    body = ErrorBody(error.status, snake_case(name), reason or str(error), FIELDS.get(name))
    return Failure(http_status(name), msgspec.json.encode(body), JSON)


def http_status(name: str) -> int:
    """The HTTP status of an error by its name in the table of statuses."""
    if name in NOT_FOUND:
        return 404
    if name in NOT_LOGGED_IN:
        return 401
    return 403 if name == UNAUTHORIZED else 400


def not_found() -> Failure:
    """The thing itself that was asked for does not exist."""
    body = ErrorBody(404, "not_found", "Resource not found", None)
    return Failure(404, msgspec.json.encode(body), JSON)


def plain(status: int, text: str, **headers: str) -> Failure:
    """A request that cannot be read, in words."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Failure(status, text.encode(), PLAIN, named)


def without_token() -> Failure:
    """Any problem with a token: nothing is said about it."""
    return Failure(401)


def snake_case(name: str) -> str:
    """A name of the table of statuses as error bodies have it."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
