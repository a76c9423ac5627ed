"""The compiled times of requests; explained where their plain twin is, in plain_meter.py."""

from typing import Final

# For the type checker these are the same classes as their twins.
from borzoi.shards.tallies.plain_meter import DoorMeter as DoorMeter
from borzoi.shards.tallies.plain_meter import RequestTimer as RequestTimer

METER_VERSION: Final[int]
