"""Numbered requests that have changed the metadata: the last one of each client, as far as kept.

A client that does not know whether its request was carried out asks again, under the same number.
The log entry names the request it comes from, so every copy of the state knows it, also one that
was read back after a death: the second request is answered with what the first has made.

Always: at most CLIENTS_MAX clients are remembered, those whose changes came last.
"""

import struct
from typing import Final, NamedTuple, TypeAlias

import msgspec

CLIENT_SIZE: Final = 16
CLIENTS_MAX: Final = 1024
"""Clients whose last change is remembered, by every shard and in every snapshot."""

_KEY: Final = struct.Struct("<I16s")
_USER: Final = struct.Struct("<I")


class RequestKey(NamedTuple):
    """A request by the id that its client chose for itself, and its number there."""

    client: bytes
    number: int


class Made(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a request has made: the entry of the log, and the id that was given out, if one was."""

    number: int
    entry: int
    new_id: int


LastRequests: TypeAlias = dict[bytes, Made]
"""By user and client; the one that changed something last is last."""


def find_made(requests: LastRequests, user_id: int, request: RequestKey) -> Made | None:
    """What this request of a user has made; None if it made nothing, or that is forgotten."""
    made = requests.get(_KEY.pack(user_id, request.client))
    return made if made is not None and made.number == request.number else None


def remember_made(
    requests: LastRequests, user_id: int, request: RequestKey, entry: int, new_id: int
) -> None:
    """A request has made this."""
    key = _KEY.pack(user_id, request.client)
    requests.pop(key, None)
    requests[key] = Made(request.number, entry, new_id)
    if len(requests) > CLIENTS_MAX:
        del requests[next(iter(requests))]


def forget_made(requests: LastRequests, user_id: int) -> None:
    """The user is gone, and its id is given out again."""
    prefix = _USER.pack(user_id)
    for key in [key for key in requests if key.startswith(prefix)]:
        del requests[key]
