"""Who is looked at, as whom it takes its turn, and what is refused without being looked at."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from borzoi.protocol.errors import Disconnected, InvalidCredentials
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.identity import logins as module
from borzoi.shards.identity.hashing import Asker, Hashing
from borzoi.shards.identity.login_failures import FailureLimits, LoginFailures, attempt_of
from borzoi.shards.identity.logins import Account, LoginNote, Logins, Note, Who
from borzoi.shards.loop.pace import Pace, Paces
from borzoi.shards.rings.requests import ignore
from tests.shards.hand_clock import HandClock

LIMITS = FailureLimits(free=5, free_per_address=20, slowed_per_second=2)
ANN = Account("ann", 7, "right")
STRANGER = Account("stranger")


class FakeHashing:
    """A password fits if it is what is stored; notes who had a turn, and refuses on demand."""

    def __init__(self) -> None:
        self.askers: list[Asker] = []
        self.is_full = False
        self.meanwhile: Callable[[], None] = lambda: None

    @asynccontextmanager
    async def turn(self, asker: Asker) -> AsyncIterator[None]:
        if self.is_full:
            raise Disconnected("too many wait")
        self.meanwhile()
        self.askers.append(asker)
        yield

    async def verify(self, stored: str | None, password: str) -> bool:
        return stored == password

    async def hash(self, password: str) -> str:
        return f"hash of {password}"


class Bench:
    """Logins with all that is around them in hand."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.hashing = FakeHashing()
        self.notes: list[LoginNote] = []
        self.logins = self.of_shard(self.notes.append)

    def of_shard(self, tell: Callable[[LoginNote], None]) -> Logins:
        return Logins(
            cast("MetadataService", None),
            cast("Hashing", self.hashing),
            LoginFailures(LIMITS, self.clock),
            LIMITS,
            tell,
        )

    async def fits(self, account: Account, password: str, who: Who) -> bool:
        try:
            await self.logins.verify(account, password, who)
        except InvalidCredentials:
            return False
        return True

    async def invent(self, count: int, who: Who) -> None:
        for number in range(count):
            assert not await self.fits(Account(f"invented {number}"), "wrong", who)


def who(host: str = "10.0.0.1", user_id: int | None = None) -> Who:
    return Who(host, host, user_id, lambda: True)


def run(check: Callable[[Bench], Coroutine[Any, Any, None]]) -> Bench:
    bench = Bench()
    asyncio.run(check(bench))
    return bench


def test_as_whom_one_takes_its_turn() -> None:
    async def check(bench: Bench) -> None:
        await bench.fits(STRANGER, "wrong", who())
        await bench.fits(ANN, "right", who())
        # Now it is known here, but not elsewhere.
        await bench.fits(ANN, "right", who())
        await bench.fits(ANN, "right", who("10.0.0.2"))
        await bench.fits(STRANGER, "wrong", who(user_id=9))
        await bench.logins.hash("new", who(user_id=9))

    takers = [asker.taker for asker in run(check).hashing.askers]
    assert takers == [
        "address 10.0.0.1",
        "address 10.0.0.1",
        "user 7",
        "address 10.0.0.2",
        "user 9",
        "user 9",
    ]


def test_a_slowed_address_is_looked_at_now_and_then() -> None:
    async def check(bench: Bench) -> None:
        await bench.fits(ANN, "right", who())
        await bench.invent(20, who())
        looked_at = len(bench.hashing.askers)
        await bench.invent(100, who())
        assert len(bench.hashing.askers) == looked_at + LIMITS.slowed_per_second
        # Even a right password, if it was never right from there.
        other = Account("ben", 8, "right")
        assert not await bench.fits(other, "right", who())
        assert await bench.fits(ANN, "right", who())
        assert await bench.fits(other, "right", who("10.0.0.2"))
        # The own password of who is logged in by other means.
        assert await bench.fits(Account("cid", 9, "right"), "right", who(user_id=9))
        bench.clock.now += 1
        assert await bench.fits(other, "right", who())

    run(check)


def test_what_waits_when_the_address_is_slowed_down_is_not_looked_at_either() -> None:
    async def check(bench: Bench) -> None:
        def fail_elsewhere() -> None:
            for number in range(20):
                name = f"elsewhere {number}"
                attempt = attempt_of("password", name, "10.0.0.1")
                note = LoginNote(Note.FAILED, *attempt)
                bench.logins.serve(1, note, memoryview(b""), ignore)

        await bench.invent(1, who())
        bench.hashing.meanwhile = fail_elsewhere
        bench.notes.clear()
        await bench.invent(10, who())
        # Those of the pace; the others had a turn, and gave it back.
        assert len(bench.notes) == LIMITS.slowed_per_second

    run(check)


def test_other_shards_know_who_has_logged_in() -> None:
    async def check(bench: Bench) -> None:
        notes: list[LoginNote] = []
        first = bench.of_shard(notes.append)
        for _ in range(3):
            await first.verify(ANN, "right", who())
        (note,) = notes
        assert note.note == Note.SUCCEEDED
        bench.logins.serve(1, note, memoryview(b""), ignore)
        await bench.fits(ANN, "right", who())
        assert bench.hashing.askers[-1].taker == "user 7"
        assert bench.notes == []

    run(check)


@pytest.mark.parametrize("is_full", [False, True])
def test_refusals_are_answered_at_a_pace(monkeypatch: pytest.MonkeyPatch, is_full: bool) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def check(bench: Bench) -> None:
        await bench.invent(20 + LIMITS.slowed_per_second, who())
        bench.hashing.is_full = is_full
        bench.logins._refusals = Paces[str](Pace(10, 5), 10, bench.clock)
        monkeypatch.setattr(asyncio, "sleep", sleep)
        for number in range(100):
            with pytest.raises(Disconnected if is_full else InvalidCredentials):
                await bench.logins.verify(
                    Account(f"more {number}"), "x", who("10.0.0.3" if is_full else "10.0.0.1")
                )

    run(check)
    assert len(pauses) == 95
    assert pauses == sorted(pauses)
    assert max(pauses) == module.REFUSAL_WAIT_MAX_S


def test_a_flood_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def check(bench: Bench) -> None:
        await bench.invent(19, who())
        assert len(caplog.records) == 19
        for _ in range(100):
            bench.clock.now += 1
            await bench.invent(3, who())
        logged = [one.getMessage() for one in caplog.records[19:]]
        assert len(logged) <= 2 * 2
        assert "20 logins from 10.0.0.1 failed lately" in logged[0]
        assert "looked at 2 times a second by each shard for 899 s" in logged[0]

    run(check)
