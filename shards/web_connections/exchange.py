"""One request as the functions of the routes see it, and what they may return."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from aiohttp import web

from borzoi.protocol.identifiers import Identifier
from borzoi.shards.handlers.services import Services
from borzoi.shards.web_forms.paths import identifier
from borzoi.shards.web_tokens.caller import HttpCaller


class Raw(NamedTuple):
    """An answer that is no JSON."""

    body: bytes
    content_type: str
    headers: Mapping[str, str] = MappingProxyType({})


class RawBody(NamedTuple):
    """A body that is no JSON."""

    content_type: str
    data: bytes


Outcome: TypeAlias = Any
"""None: no body. Raw: as it is. A response of the library: it writes itself. Else: JSON of it."""


@dataclass(slots=True)
class Exchange:
    """A request whose token, path, query and body were read."""

    request: web.BaseRequest
    services: Services
    caller: HttpCaller
    path: dict[str, str]
    query: Any
    body: Any
    headers: dict[str, str]
    """What every answer has; for answers that write themselves."""

    def id(self, name: str) -> Identifier:
        """An identifier of the path, by its name in the route."""
        return identifier(self.path[name])

    @property
    def stream(self) -> Identifier:
        """The stream of the path."""
        return identifier(self.path["stream_id"])

    @property
    def topic(self) -> Identifier:
        """The topic of the path."""
        return identifier(self.path["topic_id"])
