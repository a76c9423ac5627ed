"""What is asked of the clients of a WebSocket door, as the configuration says."""

from typing import NamedTuple

from borzoi.protocol.websocket import FROM_CLIENT, FROM_EITHER, LENGTH_MAX
from borzoi.shards.settings.schema import Cors, Websocket


class WebSocketRules(NamedTuple):
    """What is asked of the clients of this door."""

    takes: int = FROM_CLIENT
    frame_size_max: int = LENGTH_MAX
    message_size_max: int = LENGTH_MAX
    origins: frozenset[str] | None = None


def websocket_rules(settings: Websocket, cors: Cors) -> WebSocketRules:
    """As the configuration says; sizes that are not given are bounded by `limits` alone."""
    origins = frozenset(one.lower() for one in cors.allowed_origins)
    return WebSocketRules(
        FROM_EITHER if settings.accept_unmasked_frames else FROM_CLIENT,
        settings.max_frame_size or LENGTH_MAX,
        settings.max_message_size or LENGTH_MAX,
        None if not cors.enabled or cors.allowed_origins[:1] == ("*",) else origins,
    )
