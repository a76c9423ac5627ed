"""Personal access tokens: what they look like, what is kept, and when they are good."""

import base64
import re

import pytest

from borzoi.protocol.commands.users import UpdateUser
from borzoi.protocol.errors import (
    BrokerError,
    PersonalAccessTokenExpired,
    ResourceNotFound,
    UserInactive,
)
from borzoi.protocol.permissions import UserStatus
from borzoi.shards.decisions.commands import CreateToken
from borzoi.shards.identity.token_cleaner import has_expired_tokens
from borzoi.shards.identity.tokens import check_token, hash_token, new_token
from tests.shards.decisions.commands import World, create_user, small_world

ANN = 1


@pytest.fixture
def world() -> World:
    world = small_world()
    world.run(create_user("ann"))
    return world


def give_token(world: World, expiry_at: int = 0) -> str:
    raw = new_token()
    born = world.state.user(ANN).created_at
    world.run(CreateToken(ANN, born, "token", hash_token(raw), expiry_at))
    return raw


def test_a_token_is_50_random_bytes_of_which_a_hash_is_kept(world: World) -> None:
    raw = give_token(world)
    assert len(raw) == 68
    assert len(base64.b64decode(raw, validate=True)) == 50
    assert len({new_token() for _ in range(100)}) == 100
    (kept,) = world.state.token_owners
    assert re.fullmatch(r"[0-9a-f]{64}", kept)
    assert all(raw.encode() not in entry.command for entry in world.entries)


def test_only_the_very_token_is_good(world: World) -> None:
    raw = give_token(world)
    assert check_token(world.state, raw, 10) == ANN
    (kept,) = world.state.token_owners
    wrong = [raw.swapcase(), raw.lower(), raw[:-1], raw + "=", f" {raw}", "", "x", kept, "token"]
    for other in wrong:
        with pytest.raises(ResourceNotFound):
            check_token(world.state, other, 10)


@pytest.mark.parametrize(
    ("now_us", "error"),
    [(19_999, None), (20_000, PersonalAccessTokenExpired), (2**63, PersonalAccessTokenExpired)],
)
def test_expiry(world: World, now_us: int, error: type[BrokerError] | None) -> None:
    raw = give_token(world, expiry_at=20_000)
    assert has_expired_tokens(world.state, now_us) == (error is not None)
    if error is None:
        assert check_token(world.state, raw, now_us) == ANN
    else:
        with pytest.raises(error):
            check_token(world.state, raw, now_us)


def test_one_that_never_expires(world: World) -> None:
    raw = give_token(world)
    assert check_token(world.state, raw, 2**64 - 1) == ANN
    assert not has_expired_tokens(world.state, 2**64 - 1)


def test_an_inactive_user_cannot_use_it(world: World) -> None:
    raw = give_token(world)
    world.run(UpdateUser(ANN, status=UserStatus.INACTIVE))
    with pytest.raises(UserInactive):
        check_token(world.state, raw, 10)
    world.run(UpdateUser(ANN, status=UserStatus.ACTIVE))
    assert check_token(world.state, raw, 10) == ANN
