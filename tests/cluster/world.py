"""A store that does what real ones do to a client: late, lost, at the wrong moment. Simulated.

Time is a number, and nothing waits. A request is executed at one moment and answered at a later
one. Its answer may be lost, it may be executed long after that, or never. What is executed is
executed at once and as a whole: the store itself is linearizable.
"""

import heapq
import random
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from borzoi.cluster.operations import (
    Create,
    Delete,
    Get,
    Listed,
    ListKeys,
    Operation,
    Put,
    PutResult,
    Result,
)

Deliver = Callable[[Result], None]
LATE: Final = (0.03, 0.08, 0.2)
LOST: Final = 0.06
NEVER: Final = 0.3
CONFLICT: Final = 0.01
LATE_BY_MAX: Final = 120.0


class World:
    """The store, the time, and all that is on its way. While `is_calm` nothing is late or lost."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now = 0.0
        self.requests = 0
        self.is_calm = False
        self._late = rng.choice(LATE)
        self._objects: defaultdict[str, dict[str, bytes]] = defaultdict(dict)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, delay: float, event: Callable[[], None]) -> None:
        """Let something happen later."""
        self._count += 1
        heapq.heappush(self._events, (self.now + delay, self._count, event))

    def run(self, until: Callable[[], bool]) -> None:
        """Go on until this is so, or nothing is on its way any more."""
        while self._events and not until():
            self.now, _, event = heapq.heappop(self._events)
            event()

    def request(self, operation: Operation, deliver: Deliver) -> None:
        """Send a request."""
        self.requests += 1
        rng = self.rng
        if self.is_calm:
            self.at(0.0, lambda: deliver(self._execute(operation)))
            return
        before, after = rng.expovariate(1.0), rng.expovariate(1.0)
        # Checkpoints and packs most of all: there are few of them.
        if rng.random() < self._late * (4 if isinstance(operation, Put) else 1):
            before += rng.uniform(0.0, LATE_BY_MAX)
        if not isinstance(operation, Get | ListKeys) and rng.random() < LOST:
            answer = None if isinstance(operation, Delete) else PutResult.UNKNOWN
            self.at(rng.expovariate(1.0), lambda: deliver(answer))
            if rng.random() >= NEVER:
                self.at(before, lambda: self._happen(operation))
            return

        def execute() -> None:
            result = self._execute(operation)
            self.at(after, lambda: deliver(result))

        self.at(before, execute)

    def look(self, key: str) -> bytes | None:
        """An object as it is now."""
        prefix, _, name = key.rpartition("/")
        return self._objects[prefix].get(name)

    def names(self) -> list[str]:
        """Every key there is now."""
        return [f"{prefix}/{name}" for prefix, names in self._objects.items() for name in names]

    def _happen(self, operation: Operation) -> None:
        self._execute(operation)

    def _execute(self, operation: Operation) -> Result:
        if isinstance(operation, ListKeys):
            names = self._objects[operation.prefix]
            return [
                Listed(f"{operation.prefix}/{name}", len(body), 0.0)
                for name, body in sorted(names.items())
            ]
        prefix, _, name = operation.key.rpartition("/")
        objects = self._objects[prefix]
        if isinstance(operation, Get):
            return objects.get(name)
        if isinstance(operation, Delete):
            objects.pop(name, None)
            return None
        if isinstance(operation, Create):
            if name in objects:
                return PutResult.EXISTS
            if not self.is_calm and self.rng.random() < CONFLICT:
                return PutResult.EXISTS  # a store may answer 409 to a put that collided
        assert isinstance(operation, Create | Put)
        objects[name] = operation.body
        return PutResult.OK
