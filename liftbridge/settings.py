"""The settings of a stream: which of them a request gives, and which bounds they have. Pure.

They are kept as they were given, and returned by nothing of the API: a setting that is not given
has the default of the server. docs/LIFTBRIDGE.md says what each of them does here.
"""

from typing import Any, Final

from borzoi.liftbridge.refusals import invalid

GIVEN: Final = (
    "retentionMaxBytes",
    "retentionMaxMessages",
    "retentionMaxAge",
    "cleanerInterval",
    "segmentMaxBytes",
    "segmentMaxAge",
    "compactMaxGoroutines",
    "compactEnabled",
    "autoPauseTime",
    "autoPauseDisableIfSubscribers",
    "minIsr",
    "optimisticConcurrencyControl",
    "encryption",
)
"""Fields of CreateStreamRequest that may be absent."""


def given_settings(request: Any) -> dict[str, int]:
    """The settings that a CreateStreamRequest has; INVALID_ARGUMENT if one is negative."""
    found = {name: int(getattr(request, name).value) for name in GIVEN if request.HasField(name)}
    for name, value in found.items():
        if value < 0:
            raise invalid(f"{name} is {value}: needs 0 or more")
    return found
