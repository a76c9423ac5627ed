import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from borzoi.protocol.errors import InvalidAccessToken
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.rings.requests import Done, Request
from borzoi.shards.web_forms.limits import REVOKED_PER_USER_MAX
from borzoi.shards.web_tokens.revocations import Revocations, Revoke, Revoked, TooManyRevoked
from borzoi.shards.web_tokens.tokens import TokenClaims
from borzoi.storage.files import Files

KEPT_S = 300


class Broker:
    """Two shards that reach each other without rings."""

    def __init__(self, directory: Path) -> None:
        self.now = time.time()
        self.path = str(directory / "revoked-tokens")
        self.files = Files()
        self.shards = [self.new(0), self.new(1)]

    def new(self, shard: int) -> Revocations:
        def raise_it(error: BaseException) -> None:
            raise error

        return Revocations(
            shard,
            self.path,
            self.files,
            Tasks(raise_it),
            self.ask_writer,
            self.tell,
            ThreadPoolExecutor(1),
            KEPT_S,
            lambda: self.now,
        )

    def ask_writer(self, request: Request, done: Done) -> None:
        assert isinstance(request, Revoke)
        self.shards[0].serve_revoke(1, request, memoryview(b""), done)

    async def tell(self, request: Request) -> None:
        assert isinstance(request, Revoked)
        assert self.files.read_whole(self.path), "durable before others know"
        self.shards[1].serve_revoked(0, request, memoryview(b""), lambda _status, *_results: None)

    def claims(self, number: int = 0, user_id: int = 1, lives_s: float = 60) -> TokenClaims:
        expiry = self.now + lives_s
        return TokenClaims(user_id, None, f"token {number}", self.now, self.now, expiry, False)


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


@pytest.mark.parametrize("shard", [0, 1])
def test_all_shards_and_later_ones_know(broker: Broker, shard: int) -> None:
    claims = broker.claims()
    asyncio.run(broker.shards[shard].revoke(claims))
    later = broker.new(1)
    later.load()
    for one in (*broker.shards, later):
        assert one.covers(claims)
        assert not one.covers(broker.claims(1))


@pytest.mark.parametrize("shard", [0, 1])
def test_a_token_is_withdrawn_once(broker: Broker, shard: int) -> None:
    async def both() -> None:
        claims = broker.claims()
        results = await asyncio.gather(
            *(broker.shards[shard].revoke(claims) for _ in range(3)), return_exceptions=True
        )
        assert [type(one) for one in results].count(type(None)) == 1
        assert [type(one) for one in results].count(InvalidAccessToken) == 2

    asyncio.run(both())


def test_ended_tokens_are_forgotten(broker: Broker) -> None:
    claims = broker.claims()
    asyncio.run(broker.shards[0].revoke(claims))
    broker.now += 60 + KEPT_S - 1
    broker.shards[0].purge()
    assert broker.shards[0].covers(claims)
    broker.now += 2
    broker.shards[0].purge()
    assert not broker.shards[0].covers(claims)


def test_one_user_has_a_bounded_number(broker: Broker) -> None:
    async def check() -> None:
        first = broker.shards[0]
        await asyncio.gather(
            *(first.revoke(broker.claims(number)) for number in range(REVOKED_PER_USER_MAX))
        )
        with pytest.raises(TooManyRevoked):
            await first.revoke(broker.claims(-1))
        await first.revoke(broker.claims(-1, user_id=2))
        # Time makes room.
        broker.now += 60 + KEPT_S + 1
        await first.revoke(broker.claims(-2))

    asyncio.run(check())


def test_after_damage_no_earlier_token_counts(broker: Broker) -> None:
    Path(broker.path).write_bytes(b"\xc1 damaged")
    for shard in (0, 1):
        one = broker.new(shard)
        one.load()
        assert one.covers(broker.claims())
    broker.now += 2
    later = broker.new(0)
    later.load()
    assert not later.covers(broker.claims())
