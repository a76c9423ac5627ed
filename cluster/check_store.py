"""Whether a store keeps its word: what a lane needs of it, tried out.

Everything happens below a key of its own, `check-<random>`, and is removed at the end. A check that
fails names what the store did. No check can find a store that breaks its word only under a fault.
"""

import asyncio
import math
import os
import time
from collections.abc import Awaitable, Iterable
from enum import Enum
from typing import Final, TypeAlias

import msgspec

from borzoi.cluster.operations import Listed, PutResult
from borzoi.cluster.stores import SlotStore, StoreRefused, StoreUnreachable

ROUNDS: Final = 200
WRITERS: Final = 8
SAMPLES: Final = 40
SIZES: Final = (4 * 1024, 64 * 1024, 1024 * 1024)
RACE_SIZE: Final = 4 * 1024
SKEW_S_WARNED: Final = 5.0
SKEW_S_MAX: Final = 60.0
CLEAN_TRIES: Final = 3


class Verdict(Enum):
    """What a check came to."""

    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


class Check(msgspec.Struct, frozen=True):
    """One thing that a store has to do, and what it did."""

    name: str
    verdict: Verdict
    says: str


class Latency(msgspec.Struct, frozen=True):
    """How long a request of one size took."""

    request: str
    size_bytes: int
    count: int
    p50_ms: float
    p99_ms: float


class Report(msgspec.Struct, frozen=True):
    """Everything that was tried. `fits` is true when a lane is safe on this store."""

    store: str
    fits: bool
    checks: list[Check]
    latencies: list[Latency]
    left: list[str]


Said: TypeAlias = tuple[Verdict, str]


class StoreCheck:
    """The checks of one store."""

    def __init__(self, store: SlotStore, rounds: int, writers: int, samples: int) -> None:
        self._store = store
        self._rounds = rounds
        self._writers = writers
        self._samples = samples
        self._prefix = f"check-{os.urandom(8).hex()}"
        self._keys: set[str] = set()

    async def run(self) -> Report:
        """Carries all checks out; StoreUnreachable or StoreRefused if there is nothing to judge."""
        checks: list[Check] = []
        latencies: list[Latency] = []
        try:
            for name, work in (
                ("put-if-absent", self._put_if_absent),
                ("races", self._races),
                ("listing", self._listing),
                ("deletion", self._deletion),
                ("clock", self._clock),
            ):
                checks.append(Check(name, *await work()))
            latencies = await self._latencies()
        finally:
            left = await self._clean()
        fits = all(check.verdict is not Verdict.BAD for check in checks)
        return Report(self._store.name, fits, checks, latencies, left)

    async def _put_if_absent(self) -> Said:
        """A second put of the same key: it must fail, and leave the first."""
        key = self._key("twice")
        first, second = _body("first", 0), _body("second", 0)
        if await self._store.put_if_absent(key, first) is not PutResult.OK:
            await self._store.get(key)  # which says why, if nothing can be reached
            raise StoreUnreachable(f"{self._store.name}: the first put was not answered OK")
        result = await self._store.put_if_absent(key, second)
        found = await self._store.get(key)
        if result is PutResult.OK:
            return Verdict.BAD, "a second put-if-absent of one key is answered OK"
        if found != first:
            return Verdict.BAD, "a refused put-if-absent changes what is there"
        if result is PutResult.UNKNOWN:
            return Verdict.BAD, "a second put-if-absent of one key is not refused, it fails"
        return Verdict.GOOD, "a second put of a key is refused and changes nothing"

    async def _races(self) -> Said:
        """Many writers, one key, at the same moment: one wins, and all read its bytes."""
        unknown = 0
        for number in range(self._rounds):
            key = self._key(f"race-{number:06d}")
            bodies = [_body(f"round {number} writer {one}", 0) for one in range(self._writers)]
            results = await asyncio.gather(*[self._store.put_if_absent(key, b) for b in bodies])
            found = await self._store.get(key)
            wrong = _race_problem(results, bodies, found)
            if wrong:
                return Verdict.BAD, f"round {number} of {self._rounds}: {wrong}"
            unknown += results.count(PutResult.UNKNOWN)
        says = f"{self._rounds} rounds of {self._writers} racing puts have one winner each"
        if unknown:
            return Verdict.WARNING, f"{says}; {unknown} puts got no answer"
        return Verdict.GOOD, f"{says}, and its bytes are read"

    async def _listing(self) -> Said:
        """What was put a moment ago is in the next listing, with its size."""
        await asyncio.gather(*[self._delete(key) for key in sorted(self._keys)])
        expected: list[tuple[str, int]] = []
        for number in range(min(self._rounds, 20)):
            key, size = self._key(f"list-{number:06d}"), 72 + number
            if await self._store.put_if_absent(key, bytes(size)) is not PutResult.OK:
                continue
            expected.append((key, size))
            found = _sizes(await self._store.list(self._prefix))
            if found != expected:
                return Verdict.BAD, f"a listing behind put {number} shows {_difference(found)}"
        return Verdict.GOOD, "a listing shows every put before it, with its size"

    async def _deletion(self) -> Said:
        """What was deleted is gone at once, and its key is free."""
        for key in sorted(self._keys):
            if await self._store.get(key) is None:
                return Verdict.BAD, "an object that was put and listed is not read"
            await self._delete(key)
            if await self._store.get(key) is not None:
                return Verdict.BAD, "an object is read behind its deletion"
        if await self._store.list(self._prefix):
            return Verdict.BAD, "a listing shows what was deleted before it"
        key = self._key("again")
        for number in range(min(self._rounds, 10)):
            body = _body("again", number)
            if await self._store.put_if_absent(key, body) is PutResult.EXISTS:
                return Verdict.BAD, "a key stays taken behind its deletion"
            if await self._store.get(key) != body:
                return Verdict.BAD, "a key that was deleted and put again shows something else"
            await self._delete(key)
        return Verdict.GOOD, "what was deleted is gone, and its key can be put again"

    async def _clock(self) -> Said:
        """The store's clock and this machine's."""
        key = self._key("clock")
        before = time.time()
        await self._store.put_if_absent(key, b"clock")
        after = time.time()
        listed = {one.key: one for one in await self._store.list(self._prefix)}
        if key not in listed:
            return Verdict.BAD, "a listing does not show the put before it"
        at = listed[key].modified_s
        # Stores tell whole seconds: half of one is no difference.
        skew = max(before - at - 1.0, at - after, 0.0)
        if skew > SKEW_S_MAX:
            return Verdict.BAD, f"the store's clock and this one differ by {skew:.0f} s"
        if skew > SKEW_S_WARNED:
            return Verdict.WARNING, f"the store's clock and this one differ by {skew:.0f} s"
        return Verdict.GOOD, f"the store's clock and this one differ by less than {skew + 1:.0f} s"

    async def _latencies(self) -> list[Latency]:
        rows: list[Latency] = []
        for size in SIZES:
            body = os.urandom(size)
            keys = [self._key(f"size-{size}-{number:04d}") for number in range(self._samples)]
            puts = [await _timed(self._store.put_if_absent(key, body)) for key in keys]
            gets = [await _timed(self._store.get(key)) for key in keys]
            rows.append(_latency("put-if-absent", size, puts))
            rows.append(_latency("get", size, gets))
            for key in keys:
                await self._delete(key)
        return rows

    def _key(self, name: str) -> str:
        key = f"{self._prefix}/{name}"
        self._keys.add(key)
        return key

    async def _delete(self, key: str) -> None:
        await self._store.delete(key)
        self._keys.discard(key)

    async def _clean(self) -> list[str]:
        """Remove everything; what could not be removed."""
        for _ in range(CLEAN_TRIES):
            for key in sorted(self._keys):
                try:
                    await self._delete(key)
                except (StoreUnreachable, StoreRefused):
                    break
        return sorted(self._keys)


async def check(
    store: SlotStore, rounds: int = ROUNDS, writers: int = WRITERS, samples: int = SAMPLES
) -> Report:
    """Returns what a store did when everything that a lane needs was asked of it."""
    return await StoreCheck(store, rounds, writers, samples).run()


def _race_problem(results: list[PutResult], bodies: list[bytes], found: bytes | None) -> str:
    winners = [body for body, one in zip(bodies, results, strict=True) if one is PutResult.OK]
    if len(winners) > 1:
        return f"{len(winners)} of {len(bodies)} racing puts of one key are answered OK"
    if winners and found != winners[0]:
        return "what is read is not what the winner has put"
    if winners or PutResult.UNKNOWN in results:
        return ""
    return "every put of a free key is refused" if found is None else "a key was put and no put won"


def _body(what: str, number: int) -> bytes:
    """Bytes that tell who wrote them, of one size."""
    return f"{what} {number}".encode().ljust(RACE_SIZE, b".")


def _sizes(listed: Iterable[Listed]) -> list[tuple[str, int]]:
    return [(one.key, one.size) for one in listed]


def _difference(found: list[tuple[str, int]]) -> str:
    return f"{len(found)} objects, or other sizes"


async def _timed(request: Awaitable[object]) -> float:
    began = time.perf_counter()
    await request
    return (time.perf_counter() - began) * 1000


def _latency(request: str, size: int, samples_ms: list[float]) -> Latency:
    ordered = sorted(samples_ms)
    return Latency(request, size, len(ordered), _at(ordered, 0.5), _at(ordered, 0.99))


def _at(ordered: list[float], share: float) -> float:
    return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)], 2)
