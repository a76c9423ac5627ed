"""Carries the operations of the lane machine out on a store.

A reading that failed is repeated here, after a pause; a put is not, because the machine repeats it.
At most AT_ONCE requests of one driver are on their way. StoreRefused goes to the caller.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, TypeVar

from borzoi.cluster.lane import Steps
from borzoi.cluster.operations import (
    Create,
    Delete,
    Get,
    ListKeys,
    Operation,
    Put,
    Result,
    pause_s,
)
from borzoi.cluster.stores import SlotStore, StoreUnreachable

AT_ONCE: Final = 32

T = TypeVar("T")


class Driver:
    """One store, as the machine sees it."""

    def __init__(self, store: SlotStore) -> None:
        self._store = store
        self._places = asyncio.Semaphore(AT_ONCE)

    async def run(self, steps: Steps[T]) -> T:
        """Drives a generator of the machine to its end: all operations of a step at once."""
        try:
            operations = next(steps)
            while True:
                operations = steps.send(await self._all(operations))
        except StopIteration as end:
            result: T = end.value
            return result

    async def carry_out(self, operation: Operation) -> Result:
        """Carries one operation out, after the pause that its tries ask for."""
        match operation:
            case Create(key, body, tries):
                await asyncio.sleep(pause_s(tries))
                async with self._places:
                    return await self._store.put_if_absent(key, body)
            case Put(key, body, tries):
                await asyncio.sleep(pause_s(tries))
                async with self._places:
                    return await self._store.put(key, body)
            case Delete():
                await self._delete(operation)
                return None
            case Get() | ListKeys():
                return await self._until_read(operation)

    async def _all(self, operations: Sequence[Operation]) -> list[Result]:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self.carry_out(one)) for one in operations]
        except ExceptionGroup as several:
            # The first one says it; the others were cancelled or say the same.
            raise several.exceptions[0] from several
        return [task.result() for task in tasks]

    async def _delete(self, operation: Delete) -> None:
        async with self._places:
            try:
                await self._store.delete(operation.key)
            except StoreUnreachable:
                return  # a sweep finds it

    async def _until_read(self, operation: Get | ListKeys) -> Result:
        tries = 0
        while True:
            try:
                async with self._places:
                    if isinstance(operation, Get):
                        return await self._store.get(operation.key)
                    return await self._store.list(operation.prefix)
            except StoreUnreachable:
                tries += 1
                await asyncio.sleep(pause_s(tries))
