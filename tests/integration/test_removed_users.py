"""What the sessions of a removed user are answered: one status, whatever happened before.

41 on every session and to every command, except for the two answers that end the connection of a
client that is not registered any more: 100 to GET_ME, 30 to what needs a member of a group.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.sessions import LoginUser, LogoutUser
from borzoi.protocol.commands.streams import CreateStream, GetStreams
from borzoi.protocol.commands.system import GetClients, GetMe, Ping
from borzoi.protocol.commands.users import CreateUser, DeleteUser, UpdateUser
from borzoi.protocol.errors import (
    BrokerError,
    ClientNotFound,
    StaleClient,
    Unauthenticated,
    Unauthorized,
)
from borzoi.protocol.framing import encode_request
from borzoi.protocol.identifiers import PartitionId
from borzoi.protocol.message import Message
from borzoi.protocol.permissions import ALL_PERMISSIONS, UserStatus
from borzoi.protocol.send_messages import encode_send_messages
from borzoi.router.placement import pack_namespace, shard_of
from tests.broker import BrokerProcess, wait_for
from tests.integration.every_command import REQUESTS
from tests.shard_wires import TWO_SHARDS, one_per_shard, shard_of_wire
from tests.topics import topic_of
from tests.wire import Wire

PASSWORD: Final = "password"
LARGE: Final = bytes(1 << 20)
OTHERWISE: Final = {
    Code.PING: 0,
    Code.GET_ME: ClientNotFound.status,
    Code.JOIN_CONSUMER_GROUP: StaleClient.status,
    Code.LOGIN_USER: ClientNotFound.status,
}
NOT_ASKED: Final = {Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN}  # there is no such token: 53
CLOSING: Final = {ClientNotFound.status, StaleClient.status}


def remove(wire: Wire, user: int) -> None:
    wire.ask(DeleteUser(user))


def suspend_and_remove(wire: Wire, user: int) -> None:
    wire.ask(UpdateUser(user, status=UserStatus.INACTIVE))
    wire.ask(DeleteUser(user))


def suspend_restore_and_remove(wire: Wire, user: int) -> None:
    wire.ask(UpdateUser(user, status=UserStatus.INACTIVE))
    wire.ask(UpdateUser(user, status=UserStatus.ACTIVE))
    wire.ask(DeleteUser(user))


def replace(wire: Wire, user: int) -> None:
    wire.ask(DeleteUser(user))
    assert wire.ask(CreateUser("ben", PASSWORD, permissions=ALL_PERMISSIONS)).user.id == user


ENDS: Final = (remove, suspend_and_remove, suspend_restore_and_remove, replace)
End = Callable[[Wire, int], None]


@pytest.fixture
def ann(wire: Wire) -> Iterator[int]:
    """A user who may do everything, by id."""
    user: int = wire.ask(CreateUser("ann", PASSWORD, permissions=ALL_PERMISSIONS)).user.id
    yield user
    for name in ("ann", "ben"):
        wire.status(DeleteUser(name))


def poll_status(session: Wire, topic: str, partition: int = 0) -> int:
    try:
        session.poll(topic, partition)
    except BrokerError as error:
        return error.status
    return 0


def begun_send_status(session: Wire, topic: str) -> int:
    """A batch whose end comes later: it is looked at when its beginning is there."""
    payload = encode_send_messages(topic, topic, PartitionId(0), [Message(bytes(4000))])
    frame = encode_request(Code.SEND_MESSAGES, payload)
    session.put(frame[:2000])
    time.sleep(0.05)  # only so that it comes in two pieces; either way has the same answer
    session.put(frame[2000:])
    return session.answer()[0]


def has_moved(broker: BrokerProcess, session: Wire, shard: int) -> bool:
    return shard_of_wire(broker, session) == shard


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_sends_and_polls(
    standing_broker: BrokerProcess, ann: int, wire: Wire, topic: str, end: End
) -> None:
    """Both remember where they go; either may be the first to see the end of the user."""
    firsts: tuple[Callable[[Wire], int], ...] = (
        lambda session: poll_status(session, topic),
        lambda session: session.send(topic, 0, b"message"),
        lambda session: session.send(topic, 0, LARGE),
        lambda session: begun_send_status(session, topic),
        lambda session: session.status(CreateStream("gone")),
    )
    with one_per_shard(standing_broker, LoginUser("ann", PASSWORD)) as ones:
        more = [Wire(standing_broker, login=False) for _ in firsts]
        for session in more:
            session.ask(LoginUser("ann", PASSWORD))
        sessions = [*ones, *more]
        for session in sessions:
            for _ in range(2):
                assert session.send(topic, 0, b"message") == 0
                assert poll_status(session, topic) == 0
        end(wire, ann)
        found = {}
        for number, session in enumerate(sessions):
            # Each begins with another one of them.
            for turn in range(2 * len(firsts)):
                asked = (number + turn) % len(firsts)
                found[number, turn] = firsts[asked](session)
            assert session.status(Ping()) == 0
        assert set(found.values()) == {Unauthorized.status}, found


@pytest.mark.parametrize("end", ENDS)
def test_every_command(standing_broker: BrokerProcess, ann: int, wire: Wire, end: End) -> None:
    def new_session() -> Wire:
        session = Wire(standing_broker, login=False)
        session.ask(LoginUser("ann", PASSWORD))
        return session

    closing = [code for code, status in OTHERWISE.items() if status in CLOSING]
    sessions = {code: new_session() for code in closing}
    other = new_session()
    end(wire, ann)
    for code, payload in REQUESTS.items():
        if code in NOT_ASKED:
            continue
        session = sessions.get(code, other)
        wanted = OTHERWISE.get(code, Unauthorized.status)
        assert session.request(code, payload)[0] == wanted, code.name
        if code in sessions:
            assert session.is_closed()


@pytest.mark.parametrize("end", ENDS)
def test_a_session_that_has_moved(
    standing_broker: BrokerProcess, ann: int, wire: Wire, stream: str, end: End
) -> None:
    topic_id = wire.ask(topic_of(stream, 4)).topic.id
    stream_id = next(one.id for one in wire.ask(GetStreams()) if one.name == stream)
    owners = [shard_of(pack_namespace(stream_id, topic_id, number), 2) for number in range(4)]
    with one_per_shard(standing_broker, LoginUser("ann", PASSWORD)) as sessions:
        moved = 0
        for shard, session in enumerate(sessions):
            if 1 - shard in owners:
                assert session.send(stream, owners.index(1 - shard), b"message") == 0
                wait_for(partial(has_moved, standing_broker, session, 1 - shard))
                moved += 1
        assert moved, "a partition lives on either shard"
        end(wire, ann)
        for session in sessions:
            assert poll_status(session, stream) == Unauthorized.status
            assert session.send(stream, 0, b"message") == Unauthorized.status
            assert session.status(GetMe()) == ClientNotFound.status


def test_a_session_that_logged_out_or_in_again_is_not_the_removed_users(
    standing_broker: BrokerProcess, ann: int, wire: Wire
) -> None:
    out, again = (Wire(standing_broker, login=False) for _ in range(2))
    for session in (out, again):
        session.ask(LoginUser("ann", PASSWORD))
    wire.ask(UpdateUser(ann, status=UserStatus.INACTIVE))
    assert out.status(GetMe()) == Unauthenticated.status
    again.ask(LoginUser("iggy", "iggy"))
    wire.ask(UpdateUser(ann, status=UserStatus.ACTIVE))
    out.ask(LoginUser("ann", PASSWORD))
    out.ask(LogoutUser())
    wire.ask(DeleteUser(ann))
    assert out.status(GetMe()) == Unauthenticated.status
    assert again.ask(GetMe()).client.user_id == 0


@pytest.mark.slow
def test_a_session_that_counts_as_silent(tmp_path_factory: pytest.TempPathFactory) -> None:
    """It is not registered any more, and must still not act as the next user of its id."""
    settings = {**TWO_SHARDS, "IGGY_HEARTBEAT_ENABLED": "true", "IGGY_HEARTBEAT_INTERVAL": "1s"}
    broker = BrokerProcess(tmp_path_factory.mktemp("silent") / "data", settings)
    broker.start()
    try:
        wire = Wire(broker)
        wire.ask(CreateStream("t"))
        wire.ask(topic_of("t"))
        for end in ENDS:
            user = wire.ask(CreateUser("ann", PASSWORD, permissions=ALL_PERMISSIONS)).user.id
            with one_per_shard(broker, LoginUser("ann", PASSWORD)) as sessions:
                ours = {session.ask(GetMe()).client.client_id for session in sessions}

                def all_evicted(ours: set[int] = ours) -> bool:
                    assert wire.status(Ping()) == 0
                    return ours.isdisjoint(one.client_id for one in wire.ask(GetClients()))

                wait_for(all_evicted)
                for session in sessions:
                    assert session.send("t", 0, b"message") == 0
                end(wire, user)
                for session in sessions:
                    assert poll_status(session, "t") == Unauthorized.status, end
                    assert session.send("t", 0, b"message") == Unauthorized.status, end
                    assert session.status(CreateStream("gone")) == Unauthorized.status, end
    finally:
        broker.close()


def test_without_a_login_every_frame_needs_one(standing_broker: BrokerProcess, topic: str) -> None:
    session = Wire(standing_broker, login=False)
    for _ in range(3):
        assert session.send(topic, 0, b"message") == Unauthenticated.status
        assert begun_send_status(session, topic) == Unauthenticated.status
        assert session.send(topic, 0, LARGE) == Unauthenticated.status
        assert poll_status(session, topic) == Unauthenticated.status
