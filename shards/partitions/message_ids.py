"""Ids for messages that come without one: random, from a seed of this process alone.

Workers are forked after this was imported (nursery.py), and two that went on from one seed would
give the same ids to different messages: every fork begins with a new seed.
"""

import os
from typing import Final

from borzoi.protocol.batch import SEED_SIZE, RandomIds

RANDOM_IDS: Final = RandomIds(os.urandom(SEED_SIZE))


def _seed_again() -> None:
    # In place: the modules that use it have it by now.
    RANDOM_IDS.__init__(os.urandom(SEED_SIZE))  # type: ignore[misc]  # it has no other state


os.register_at_fork(after_in_child=_seed_again)
