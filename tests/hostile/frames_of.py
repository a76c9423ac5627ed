"""Which mutated frames belong to which generation: a function of a number for each."""

from collections.abc import Callable, Mapping
from typing import Final

from tests.hostile.consensus_mutation import consensus_mutant
from tests.hostile.mutation import mutant

FRAMES_OF: Final[Mapping[str, Callable[[int], bytes]]] = {
    "classic": lambda number: mutant(number).frame,
    "consensus-0.11": consensus_mutant,
}
