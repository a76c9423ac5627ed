"""Which frames of a client are taken in: the bounds of a connection, and the decision.

Pure. The length of a frame is known before its body has come. So nothing is ever reserved for one
that is too long, or that needs a login before it may be sent.
"""

from dataclasses import dataclass

from borzoi.protocol.codes import Code
from borzoi.protocol.errors import InvalidCommand
from borzoi.quantities import seconds
from borzoi.shards.settings.schema import Limits


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Bounds of one connection, all from the `limits` table of the configuration."""

    frame_size_max: int
    control_frame_size_max: int
    frame_size_max_before_login: int
    login_timeout_s: float
    frame_timeout_s: float
    write_timeout_s: float
    read_rate_min: int

    def admitted_at_any_time(self, window_size: int) -> int:
        """Frames up to here are admitted with every code, before and after the login."""
        own = (self.frame_size_max_before_login, self.control_frame_size_max, self.frame_size_max)
        return min(*own, window_size)


def connection_limits(limits: Limits) -> ConnectionLimits:
    """As the configuration says."""
    return ConnectionLimits(
        limits.frame_size_max,
        limits.control_frame_size_max,
        limits.frame_size_max_before_login,
        seconds(limits.login_timeout),
        seconds(limits.frame_timeout),
        seconds(limits.write_timeout),
        limits.read_rate_min,
    )


def refusal(
    limits: ConnectionLimits,
    code: int,
    total: int,
    payload_size: int,
    *,
    without_login: int | None,
) -> int | None:
    """The status that refuses a frame of `total` bytes; None if it is welcome.

    `without_login` is the status for what only users may send, None for a user.
    """
    if without_login is not None:
        return without_login if total > limits.frame_size_max_before_login else None
    if code == Code.SEND_MESSAGES:
        size, size_max = total, limits.frame_size_max
    else:
        # The bound of 10 MiB that clients know is one of the payload.
        size, size_max = payload_size, limits.control_frame_size_max
    return InvalidCommand.status if size > size_max else None
