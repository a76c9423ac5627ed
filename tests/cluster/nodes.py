"""A node of the simulation: the lane machine, a copy of the log, and a fate.

At each of its moments a node opens the lane, appends, stores a checkpoint, sweeps, is paused, or is
killed. Its requests go on without it. Answers wait while it is paused, and are lost if it is dead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any, Final, NamedTuple

from borzoi.cluster.keys import Checkpoint
from borzoi.cluster.operations import Operation, Result, pause_s
from borzoi.cluster.slots import Entry, EntryKind
from tests.cluster.copies import Copy, batch
from tests.cluster.history import History
from tests.cluster.world import World

LANE: Final = 3
READ_AHEAD: Final = 5
KILLED: Final = 0.012
PAUSED: Final = 0.02
PAUSE_MAX: Final = 80.0
FALSE_TAKEOVERS: Final = (0.01, 0.03, 0.08)
APPENDS: Final = 0.6
CHECKPOINTS: Final = 0.2
SWEEPS: Final = 0.15
DROPS: Final = 0.12


class Setting(NamedTuple):
    """What all nodes of a history share."""

    world: World
    history: History
    machine: ModuleType
    window: int


class Node:
    """One process."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._world = setting.world
        self._rng = setting.world.rng
        self._history = setting.history
        self._machine = setting.machine
        self._takes_over = setting.world.rng.choice(FALSE_TAKEOVERS)
        self._life = 0
        self._paused_until = 0.0
        self.openings = 0
        self.fenced = 0
        self.forget()

    def forget(self) -> None:
        """Dies: everything but its requests is gone."""
        self._life += 1
        self._is_opening = self._is_checkpointing = self._is_sweeping = False
        self.writer: Any = None
        self.copy = Copy(self._history)
        self._pending: dict[int, tuple[list[Entry], list[int]]] = {}
        self._ahead = 0

    @property
    def is_owner(self) -> bool:
        return self.writer is not None and not self.writer.is_lost

    def act(self, messages: Callable[[], int], may_open: bool) -> None:
        """One moment of its life."""
        if self._world.now < self._paused_until:
            return
        rng = self._rng
        if rng.random() < KILLED:
            self.forget()
        elif rng.random() < PAUSED:
            self._paused_until = self._world.now + rng.uniform(1.0, PAUSE_MAX)
        elif self.writer is None:
            if not self._is_opening and (may_open or rng.random() < self._takes_over):
                self.open()
        elif self.writer.is_lost:
            if self.writer.is_idle:
                self.fenced += 1
                self.forget()
        else:
            self._work(messages)

    def _work(self, messages: Callable[[], int]) -> None:
        rng = self._rng
        if self.writer.has_room and rng.random() < APPENDS:
            entries = None
            if rng.random() < DROPS and self.copy.length:
                first = rng.randrange(self.copy.length)
                entries = [Entry(EntryKind.DROPPED, first=first)]
            self.append(entries, [messages() for _ in range(rng.choice((1, 1, 1, 2)))])
        if rng.random() < CHECKPOINTS:
            self.checkpoint()
        if rng.random() < SWEEPS:
            self.sweep()

    def open(self, opened: Callable[[], None] = lambda: None) -> None:
        """Begins to open the lane."""
        self._is_opening = True
        copy = self.copy = Copy(self._history)
        machine = self._machine
        writer = self._rng.randbytes(16)

        def is_open(result: Any) -> None:
            self._is_opening = False
            self.openings += 1
            self.writer = machine.LaneWriter(result)
            self._ahead = self.copy.length
            opened()

        steps = machine.opening(LANE, self._setting.window, writer, copy, READ_AHEAD)
        self._run(steps, is_open)

    def append(self, entries: list[Entry] | None, messages: list[int]) -> None:
        """Sends a group: these messages, or what else it says."""
        if entries is None:
            entries = [batch(self._ahead, messages)]
            for at, message in enumerate(messages, self._ahead):
                self._history.submitted(message, at)
            self._ahead += len(messages)
        else:
            messages = []
        slot, put = self.writer.append(entries)
        self._pending[slot] = entries, messages
        self._send(put)

    def checkpoint(self) -> None:
        """Begins to store a checkpoint, if there is something new."""
        name: Checkpoint | None = self.writer.next_checkpoint()
        if name is None or self._is_checkpointing:
            return
        self._is_checkpointing = True

        def is_stored(_: object) -> None:
            self._is_checkpointing = False

        body, pack, packs = self.copy.checkpoint(name)
        self._run(self.writer.checkpointing(name, body, pack, packs), is_stored)

    def sweep(self) -> None:
        """Begins to remove what kills have left."""
        if self._is_sweeping:
            return
        self._is_sweeping = True

        def is_swept(_: object) -> None:
            self._is_sweeping = False

        self._run(self.writer.sweeping(lambda one: True), is_swept)

    def _send(self, operation: Operation) -> None:
        """Carry out an operation of the writer; its result goes back to it."""
        writer = self.writer

        def took(result: Result) -> None:
            step = writer.take(operation, result)
            for slot, outcome in step.outcomes:
                self._ended(slot, outcome.value)
            for one in step.operations:
                self._send(one)

        self._request(operation, took)

    def _ended(self, slot: int, outcome: str) -> None:
        entries, messages = self._pending.pop(slot)
        if outcome == "stored":
            for message in messages:
                self._history.stored(message)
            self.copy.take(entries)
        elif outcome == "refused":
            for message in messages:
                self._history.not_stored(message)

    def _run(self, steps: Any, ended: Callable[[Any], None]) -> None:
        """Drive a generator of the machine: all operations of a step at once."""

        def go(results: list[Result] | None) -> None:
            try:
                operations: Sequence[Operation] = steps.send(results)
            except StopIteration as end:
                ended(end.value)
                return
            except self._machine.LaneDamaged as damage:
                self._history.wrong(f"damaged: {damage}")
                return
            if not operations:
                go([])
                return
            gathered: list[Result] = [None] * len(operations)
            missing = len(operations)

            def took(place: int, result: Result) -> None:
                nonlocal missing
                gathered[place] = result
                missing -= 1
                if not missing:
                    go(gathered)

            for place, operation in enumerate(operations):
                self._request(operation, partial(took, place))

        go(None)

    def _request(self, operation: Operation, took: Callable[[Result], None]) -> None:
        life = self._life

        def deliver(result: Result) -> None:
            if self._life != life:
                return
            wait = self._paused_until - self._world.now
            if wait > 0:
                self._world.at(wait, lambda: deliver(result))
            else:
                took(result)

        tries = getattr(operation, "tries", 0)
        if not tries:
            self._world.request(operation, deliver)
            return

        def again() -> None:
            if self._life == life:
                self._world.request(operation, deliver)

        self._world.at(10 * pause_s(tries), again)
