"""Which web pages may use the HTTP door: the headers of CORS, by the configuration. Pure."""

from collections.abc import Mapping
from typing import Final

from borzoi.shards.settings.schema import Cors

ANY: Final = "*"
VARY: Final = "origin, access-control-request-method, access-control-request-headers"
PRIVATE_NETWORK: Final = "Access-Control-Request-Private-Network"


class CorsRules:
    """The rules of one configuration."""

    def __init__(self, settings: Cors) -> None:
        self.enabled = settings.enabled
        self._is_open = settings.allowed_origins[:1] == (ANY,)
        self._origins = frozenset(settings.allowed_origins)
        self._private_network = settings.allow_private_network
        self._always: dict[str, str] = {"Vary": VARY}
        if settings.allow_credentials:
            self._always["Access-Control-Allow-Credentials"] = "true"
        self._with_credentials = settings.allow_credentials
        self._exposed = ", ".join(filter(str.strip, settings.exposed_headers))
        self._asked = {
            "Access-Control-Allow-Methods": ", ".join(settings.allowed_methods),
            "Access-Control-Allow-Headers": ", ".join(filter(str.strip, settings.allowed_headers)),
        }

    def headers(self, request: Mapping[str, str]) -> dict[str, str]:
        """The headers of an answer to a request with these headers."""
        if not self.enabled:
            return {}
        found = self._always | self._origin(request.get("Origin"))
        if self._exposed:
            found["Access-Control-Expose-Headers"] = self._exposed
        return found

    def preflight(self, request: Mapping[str, str]) -> dict[str, str]:
        """The headers of an answer to a browser that asks what it may send."""
        found = self._always | self._origin(request.get("Origin")) | self._asked
        if self._private_network and request.get(PRIVATE_NETWORK) == "true":
            found["Access-Control-Allow-Private-Network"] = "true"
        return found

    def _origin(self, origin: str | None) -> dict[str, str]:
        if self._is_open and not self._with_credentials:
            return {"Access-Control-Allow-Origin": ANY}
        if origin is not None and (self._is_open or origin in self._origins):
            return {"Access-Control-Allow-Origin": origin}
        return {}
