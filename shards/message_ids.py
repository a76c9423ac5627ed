"""Ids for messages that come without one: random, from a seed of this process alone."""

import os
from typing import Final

from borzoi.protocol.batch import SEED_SIZE, RandomIds

RANDOM_IDS: Final = RandomIds(os.urandom(SEED_SIZE))
