"""Personal access tokens: shown once, good on every shard, and gone from all of them at once."""

from collections.abc import Iterator

import pytest

from borzoi.protocol.commands import Command
from borzoi.protocol.commands.sessions import (
    CreatePersonalAccessToken,
    DeletePersonalAccessToken,
    GetPersonalAccessTokens,
    LoginUser,
    LoginWithPersonalAccessToken,
    LogoutUser,
)
from borzoi.protocol.commands.system import GetMe
from borzoi.protocol.commands.users import CreateUser, DeleteUser, UpdateUser
from borzoi.protocol.errors import (
    InvalidPersonalAccessTokenName,
    PersonalAccessTokenAlreadyExists,
    PersonalAccessTokenExpired,
    PersonalAccessTokensLimitReached,
    ResourceNotFound,
    Unauthenticated,
    UserInactive,
)
from borzoi.protocol.identifiers import U64_MAX
from borzoi.protocol.permissions import UserStatus
from borzoi.protocol.responses.users import RawToken
from tests.broker import BrokerProcess, wait_for
from tests.conftest import NewBroker
from tests.shard_wires import TWO_SHARDS, one_per_shard
from tests.wire import Wire

PASSWORD = "password"
HOUR_US = 3_600_000_000


@pytest.fixture
def session(standing_broker: BrokerProcess, wire: Wire) -> Iterator[Wire]:
    """A connection of a user without any permission: tokens need none."""
    wire.ask(CreateUser("ann", PASSWORD))
    session = Wire(standing_broker, login=False)
    session.ask(LoginUser("ann", PASSWORD))
    yield session
    wire.status(DeleteUser("ann"))


def new_token(wire: Wire, name: str, expiry_us: int = 0) -> str:
    raw = wire.ask(CreatePersonalAccessToken(name, expiry_us))
    assert isinstance(raw, RawToken)
    return raw.token


def names(wire: Wire) -> list[str]:
    return [token.name for token in wire.ask(GetPersonalAccessTokens())]


def test_a_token_from_beginning_to_end(standing_broker: BrokerProcess, session: Wire) -> None:
    token = new_token(session, "laptop", HOUR_US)
    forever = new_token(session, "build", U64_MAX)
    listed = session.ask(GetPersonalAccessTokens())
    assert [one.name for one in listed] == ["build", "laptop"]
    assert listed[0].expiry_at is None
    assert listed[1].expiry_at is not None
    assert len(token) == len(forever) == 68
    me = session.ask(GetMe()).client.user_id
    with one_per_shard(standing_broker) as others:
        for other in others:
            for one in (token, forever):
                assert other.ask(LoginWithPersonalAccessToken(one)).user_id == me
                assert other.ask(GetMe()).client.user_id == me
                assert names(other) == ["build", "laptop"]
        others[1].ask(DeletePersonalAccessToken("laptop"))
        for other in others:
            assert other.status(LoginWithPersonalAccessToken(token)) == ResourceNotFound.status
            # It opens nothing any more; who is in stays in.
            assert other.ask(GetMe()).client.user_id == me
            assert other.status(LoginWithPersonalAccessToken(forever)) == 0


def test_names_and_texts_that_are_refused(standing_broker: BrokerProcess, session: Wire) -> None:
    token = new_token(session, "laptop")
    statuses: dict[Command, int] = {
        CreatePersonalAccessToken("ab", 0): InvalidPersonalAccessTokenName.status,
        CreatePersonalAccessToken("a" * 31, 0): InvalidPersonalAccessTokenName.status,
        CreatePersonalAccessToken("laptop", 0): PersonalAccessTokenAlreadyExists.status,
        CreatePersonalAccessToken("Laptop", 0): 0,
        DeletePersonalAccessToken("LAPTOP"): ResourceNotFound.status,
        DeletePersonalAccessToken("phone"): ResourceNotFound.status,
    }
    assert {command: session.status(command) for command in statuses} == statuses
    stranger = Wire(standing_broker, login=False)
    for other in (token.swapcase(), token[:-1], token + "=", " " + token, "laptop", "x" * 255):
        assert stranger.status(LoginWithPersonalAccessToken(other)) == ResourceNotFound.status
    assert stranger.status(GetMe()) == Unauthenticated.status
    assert stranger.status(CreatePersonalAccessToken("ab", 0)) == Unauthenticated.status
    assert stranger.status(LoginWithPersonalAccessToken(token)) == 0
    stranger.ask(LogoutUser())
    assert stranger.status(GetPersonalAccessTokens()) == Unauthenticated.status


def test_tokens_are_ones_own(wire: Wire, session: Wire) -> None:
    new_token(session, "laptop")
    assert names(wire) == []
    assert wire.status(DeletePersonalAccessToken("laptop")) == ResourceNotFound.status
    # Another user may have a token of the same name.
    new_token(wire, "laptop")
    session.ask(DeletePersonalAccessToken("laptop"))
    assert names(wire) == ["laptop"]
    wire.ask(DeletePersonalAccessToken("laptop"))


def test_an_expired_token_is_refused(standing_broker: BrokerProcess, session: Wire) -> None:
    token = new_token(session, "brief", 1)
    with one_per_shard(standing_broker) as others:
        for other in others:
            status = other.status(LoginWithPersonalAccessToken(token))
            assert status == PersonalAccessTokenExpired.status
    # Its name is free for another.
    new_token(session, "brief")


def test_tokens_end_with_their_user(
    standing_broker: BrokerProcess, wire: Wire, session: Wire
) -> None:
    token = new_token(session, "laptop")
    wire.ask(UpdateUser("ann", status=UserStatus.INACTIVE))
    with one_per_shard(standing_broker) as others:
        for other in others:
            assert other.status(LoginWithPersonalAccessToken(token)) == UserInactive.status
        wire.ask(UpdateUser("ann", status=UserStatus.ACTIVE))
        assert others[1].status(LoginWithPersonalAccessToken(token)) == 0
        wire.ask(DeleteUser("ann"))
        assert others[0].status(LoginWithPersonalAccessToken(token)) == ResourceNotFound.status
    # Not even a new user of the same name and id gets it back.
    wire.ask(CreateUser("ann", PASSWORD))
    stranger = Wire(standing_broker, login=False)
    assert stranger.status(LoginWithPersonalAccessToken(token)) == ResourceNotFound.status


@pytest.mark.slow
def test_limit_cleaner_and_restarts(new_broker: NewBroker) -> None:
    """Users and tokens are as acknowledged, after a stop and after `kill -9`."""
    broker = new_broker(
        **TWO_SHARDS,
        IGGY_PERSONAL_ACCESS_TOKEN_MAX_TOKENS_PER_USER="3",
        IGGY_PERSONAL_ACCESS_TOKEN_CLEANER_INTERVAL="50ms",
    )
    wire = Wire(broker)
    token, revoked = new_token(wire, "good"), new_token(wire, "revoked")
    new_token(wire, "brief", 1)
    # Expired ones take no place, and are cleared away without anybody asking.
    wait_for(lambda: names(wire) == ["good", "revoked"])
    new_token(wire, "third")
    limit = wire.status(CreatePersonalAccessToken("fourth", 0))
    assert limit == PersonalAccessTokensLimitReached.status
    for end in (broker.stop, broker.kill):
        wire.status(DeletePersonalAccessToken("revoked"))
        end()
        broker.start()
        with one_per_shard(broker) as others:
            for other in others:
                assert other.status(LoginWithPersonalAccessToken(token)) == 0
                assert names(other) == ["good", "third"]
                status = other.status(LoginWithPersonalAccessToken(revoked))
                assert status == ResourceNotFound.status
        wire = Wire(broker)
    assert "expired tokens are still listed" not in broker.output()
