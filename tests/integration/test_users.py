"""Users and what they may do. A change of it holds on every shard from the next request on."""

import dataclasses
from collections.abc import Iterator

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.commands import Command
from borzoi.protocol.commands.groups import JoinConsumerGroup
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.offsets import StoreConsumerOffset
from borzoi.protocol.commands.sessions import (
    CreatePersonalAccessToken,
    GetPersonalAccessTokens,
    LoginUser,
)
from borzoi.protocol.commands.streams import CreateStream, DeleteStream, GetStream
from borzoi.protocol.commands.system import GetClients, GetMe, Ping
from borzoi.protocol.commands.topics import DeleteTopic
from borzoi.protocol.commands.users import (
    ChangePassword,
    CreateUser,
    DeleteUser,
    GetUser,
    GetUsers,
    UpdatePermissions,
    UpdateUser,
)
from borzoi.protocol.errors import (
    CannotChangePermissions,
    CannotDeleteUser,
    ClientNotFound,
    InvalidCredentials,
    InvalidFormat,
    InvalidPassword,
    InvalidUsername,
    ResourceNotFound,
    StaleClient,
    Unauthenticated,
    Unauthorized,
    UserAlreadyExists,
    UserInactive,
)
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from borzoi.protocol.permissions import (
    ALL_PERMISSIONS,
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
    UserStatus,
)
from borzoi.protocol.responses.users import UserDetails
from tests.broker import BrokerProcess
from tests.shard_wires import one_per_shard
from tests.topics import topic_of
from tests.wire import FIRST, Wire

PASSWORD = "password"
MANAGER = Permissions(GlobalPermissions(manage_users=True))
GROUP = Consumer(ConsumerKind.GROUP, 0)


@pytest.fixture
def ann(wire: Wire) -> Iterator[int]:
    """A user without permissions, by id."""
    yield new_user(wire, "ann")
    for user in wire.ask(GetUsers()):
        if user.id:
            wire.ask(DeleteUser(user.id))


def new_user(wire: Wire, name: str, permissions: Permissions | None = None) -> int:
    details = wire.ask(CreateUser(name, PASSWORD, permissions=permissions))
    assert isinstance(details, UserDetails)
    return details.user.id


def login(broker: BrokerProcess, name: str, password: str = PASSWORD) -> Wire:
    wire = Wire(broker, login=False)
    wire.ask(LoginUser(name, password))
    return wire


def login_status(broker: BrokerProcess, name: str, password: str = PASSWORD) -> int:
    wire = Wire(broker, login=False)
    try:
        return wire.status(LoginUser(name, password))
    finally:
        wire.close()


def test_a_user_from_beginning_to_end(standing_broker: BrokerProcess, wire: Wire) -> None:
    permissions = Permissions(
        GlobalPermissions(read_servers=True),
        {3: StreamPermissions(read_stream=True, topics={5: TopicPermissions(True)})},
    )
    details = wire.ask(CreateUser("ann", PASSWORD, UserStatus.ACTIVE, permissions))
    ann = details.user.id
    assert (details.user.username, details.user.status) == ("ann", UserStatus.ACTIVE)
    assert details.permissions == permissions
    assert wire.ask(GetUser("ann")) == wire.ask(GetUser(ann)) == details
    assert [user.username for user in wire.ask(GetUsers())] == ["iggy", "ann"]
    session = login(standing_broker, "ann")
    assert session.ask(GetMe()).client.user_id == ann
    wire.ask(UpdateUser("ann", "anna"))
    assert wire.ask(GetUser("ann")) is None
    assert wire.ask(GetUser("anna")).user == dataclasses.replace(details.user, username="anna")
    assert login_status(standing_broker, "ann") == InvalidCredentials.status
    wire.ask(UpdatePermissions(ann, None))
    assert wire.ask(GetUser(ann)).permissions is None
    session.ask(ChangePassword("anna", PASSWORD, "other password"))
    assert login_status(standing_broker, "anna") == InvalidCredentials.status
    assert login_status(standing_broker, "anna", "other password") == 0
    wire.ask(DeleteUser(ann))
    assert wire.ask(GetUser(ann)) is None
    assert login_status(standing_broker, "anna", "other password") == InvalidCredentials.status


def test_a_password_is_no_ones_but_the_users(ann: int, wire: Wire) -> None:
    """The same password for two users, in two hashes; and what the clients' bytes say of it."""
    status, answer = wire.request(Code.GET_USER, b"\x02\x03ann")
    assert status == 0
    assert PASSWORD.encode() not in answer
    assert b"argon" not in answer


@pytest.mark.parametrize(
    ("username", "password", "status"),
    [
        ("ab", PASSWORD, InvalidUsername.status),
        ("a" * 51, PASSWORD, InvalidUsername.status),
        ("é" * 26, PASSWORD, InvalidUsername.status),
        ("new", "ab", InvalidPassword.status),
        ("new", "a" * 101, InvalidPassword.status),
        ("ab", "ab", InvalidUsername.status),
        ("ann", PASSWORD, UserAlreadyExists.status),
        ("iggy", PASSWORD, UserAlreadyExists.status),
    ],
)
@pytest.mark.usefixtures("ann")
def test_users_that_cannot_be_made(wire: Wire, username: str, password: str, status: int) -> None:
    assert wire.status(CreateUser(username, password)) == status


def test_changes_that_are_refused(ann: int, wire: Wire) -> None:
    statuses: dict[Command, int] = {
        UpdateUser(ann, "ab"): InvalidUsername.status,
        UpdateUser(ann, "iggy"): UserAlreadyExists.status,
        UpdateUser(99, "new"): ResourceNotFound.status,
        UpdateUser(99, "ab"): InvalidUsername.status,
        DeleteUser(99): ResourceNotFound.status,
        DeleteUser("iggy"): CannotDeleteUser.status,
        DeleteUser(0): CannotDeleteUser.status,
        UpdatePermissions(0, None): CannotChangePermissions.status,
        UpdatePermissions("absent", None): ResourceNotFound.status,
        ChangePassword(99, PASSWORD, PASSWORD): ResourceNotFound.status,
        ChangePassword(99, "ab", PASSWORD): InvalidPassword.status,
        ChangePassword(ann, PASSWORD, "ab"): InvalidPassword.status,
        ChangePassword(ann, "a" * 101, PASSWORD): InvalidPassword.status,
        # An administrator has to know the password, too.
        ChangePassword(ann, "wrong", "new password"): InvalidCredentials.status,
        GetUser(99): 0,
    }
    assert {command: wire.status(command) for command in statuses} == statuses
    assert wire.request(Code.UPDATE_USER, b"\x01\x04\0\0\0\0\x01\0\0")[0] == InvalidFormat.status


def test_the_root_user_may_be_renamed_and_back(standing_broker: BrokerProcess, wire: Wire) -> None:
    wire.ask(UpdateUser(0, "boss"))
    assert login_status(standing_broker, "boss", "iggy") == 0
    wire.ask(UpdateUser("boss", "iggy"))
    assert wire.ask(GetUser(0)).permissions == ALL_PERMISSIONS


def test_without_permissions_one_has_oneself(
    standing_broker: BrokerProcess, ann: int, wire: Wire
) -> None:
    session = login(standing_broker, "ann")
    assert session.ask(GetUser("ann")).user.id == ann
    assert session.ask(GetUser("absent")) is None
    statuses: dict[Command, int] = {
        GetUser(0): Unauthorized.status,
        GetUsers(): Unauthorized.status,
        # The permission is asked for first, whether or not there is such a user.
        CreateUser("ab", "ab"): Unauthorized.status,
        UpdateUser("ann", "other"): Unauthorized.status,
        UpdateUser("absent", "ab"): Unauthorized.status,
        DeleteUser("ann"): Unauthorized.status,
        DeleteUser("absent"): Unauthorized.status,
        DeleteUser(0): Unauthorized.status,
        UpdatePermissions("ann", None): Unauthorized.status,
        UpdatePermissions(0, None): Unauthorized.status,
        # Here lengths and existence come before it.
        ChangePassword(0, "ab", PASSWORD): InvalidPassword.status,
        ChangePassword("absent", PASSWORD, PASSWORD): ResourceNotFound.status,
        ChangePassword(0, "iggy", PASSWORD): Unauthorized.status,
        ChangePassword("ann", "wrong", PASSWORD): InvalidCredentials.status,
        ChangePassword("ann", PASSWORD, "new password"): 0,
    }
    assert {command: session.status(command) for command in statuses} == statuses
    assert wire.status(LoginUser("iggy", "iggy")) == 0


def test_one_with_manage_users_is_an_administrator(
    standing_broker: BrokerProcess, ann: int, wire: Wire
) -> None:
    new_user(wire, "boss", MANAGER)
    boss = login(standing_broker, "boss")
    assert boss.ask(GetUser(ann)).user.id == ann
    assert [user.username for user in boss.ask(GetUsers())] == ["iggy", "ann", "boss"]
    ben = new_user(boss, "ben")
    boss.ask(UpdatePermissions(ben, ALL_PERMISSIONS))
    boss.ask(ChangePassword(ben, PASSWORD, "new password"))
    assert login_status(standing_broker, "ben", "new password") == 0
    boss.ask(DeleteUser(ben))
    assert boss.status(DeleteUser(0)) == CannotDeleteUser.status
    assert boss.status(CreateStream("mine")) == Unauthorized.status


def test_a_removed_user_has_no_session_left_on_any_shard(
    standing_broker: BrokerProcess, ann: int, wire: Wire
) -> None:
    wire.ask(UpdatePermissions(ann, ALL_PERMISSIONS))
    with one_per_shard(standing_broker) as sessions:
        for session in sessions:
            session.ask(LoginUser("ann", PASSWORD))
            assert session.status(CreateStream("gone")) == 0
            wire.ask(DeleteStream("gone"))
        ours = {session.ask(GetMe()).client.client_id for session in sessions}
        assert ours <= {client.client_id for client in wire.ask(GetClients())}
        wire.ask(DeleteUser(ann))
        # The next user gets its id. Who is still connected as the old one must get nothing of it.
        assert new_user(wire, "ben", ALL_PERMISSIONS) == ann
        listed = wire.ask(GetClients())
        assert ours.isdisjoint(client.client_id for client in listed)
        for session in sessions:
            for command in (
                CreateStream("gone"), GetUser("ben"), GetUsers(), GetPersonalAccessTokens(),
                CreatePersonalAccessToken("token", 0), GetStream("nowhere"),
            ):  # fmt: skip
                assert session.status(command) == Unauthorized.status, command
            assert session.send("nowhere", 0, b"message") == Unauthorized.status
            assert session.status(Ping()) == 0
        # What a client that is not registered any more gets; the connection ends with it.
        first, second = sessions
        assert first.status(GetMe()) == ClientNotFound.status
        assert first.is_closed()
        assert second.status(JoinConsumerGroup(0, 0, 0)) == StaleClient.status
        assert second.is_closed()
    assert wire.ask(GetPersonalAccessTokens()) == ()


@pytest.mark.parametrize(
    "command",
    [
        PollMessages(GROUP, "s", "t", None, FIRST, 1, False),
        StoreConsumerOffset(GROUP, "s", "t", None, 0),
    ],
)
def test_group_commands_of_a_removed_user(
    standing_broker: BrokerProcess,
    ann: int,
    wire: Wire,
    command: PollMessages | StoreConsumerOffset,
) -> None:
    session = login(standing_broker, "ann")
    wire.ask(DeleteUser(ann))
    assert session.status(command) == StaleClient.status
    assert session.is_closed()


def test_a_removed_user_cannot_log_in_again_on_its_connection(
    standing_broker: BrokerProcess, ann: int, wire: Wire
) -> None:
    session = login(standing_broker, "ann")
    wire.ask(DeleteUser(ann))
    assert session.status(LoginUser("iggy", "iggy")) == ClientNotFound.status
    assert session.is_closed()


def test_an_inactive_user_is_logged_out_on_every_shard(
    standing_broker: BrokerProcess, ann: int, wire: Wire, topic: str
) -> None:
    wire.ask(UpdatePermissions(ann, ALL_PERMISSIONS))
    with one_per_shard(standing_broker) as sessions:
        for session in sessions:
            session.ask(LoginUser("ann", PASSWORD))
            assert session.send(topic, 0, b"message") == 0
            assert session.payloads(topic)
        wire.ask(UpdateUser(ann, status=UserStatus.INACTIVE))
        for number, session in enumerate(sessions):
            # Sends and polls remember where they go, so these are the first to see it.
            if number:
                assert session.send(topic, 0, b"message") == Unauthenticated.status
            else:
                with pytest.raises(Unauthenticated):
                    session.poll(topic)
            assert session.status(GetMe()) == Unauthenticated.status
            assert session.status(LoginUser("ann", PASSWORD)) == UserInactive.status
            assert session.status(LoginUser("ann", "wrong")) == UserInactive.status
        wire.ask(UpdateUser(ann, status=UserStatus.ACTIVE))
        for session in sessions:
            assert session.status(GetMe()) == Unauthenticated.status
            assert session.status(LoginUser("ann", PASSWORD)) == 0
            assert session.send(topic, 0, b"message") == 0


def test_one_may_be_made_inactive(standing_broker: BrokerProcess, wire: Wire) -> None:
    wire.ask(CreateUser("idle", PASSWORD, UserStatus.INACTIVE))
    assert login_status(standing_broker, "idle") == UserInactive.status
    wire.ask(DeleteUser("idle"))


def test_permissions_hold_for_the_next_send_and_poll_of_every_shard(
    standing_broker: BrokerProcess, ann: int, wire: Wire, topic: str
) -> None:
    stream_id = wire.ask(GetStream(topic)).stream.id
    both = StreamPermissions(poll_messages=True, send_messages=True)
    with one_per_shard(standing_broker) as sessions:
        for session in sessions:
            session.ask(LoginUser("ann", PASSWORD))
        for _ in range(3):
            wire.ask(UpdatePermissions(ann, Permissions(streams={stream_id: both})))
            for session in sessions:
                # Twice: the second time the place is remembered.
                assert [session.send(topic, 0, b"message") for _ in range(2)] == [0, 0]
                assert session.payloads(topic) == session.payloads(topic) != []
            wire.ask(UpdatePermissions(ann, None))
            for session in sessions:
                assert session.send(topic, 0, b"message") == Unauthorized.status
                with pytest.raises(Unauthorized):
                    session.poll(topic)


def test_a_new_stream_or_topic_inherits_no_grants(
    standing_broker: BrokerProcess, ann: int, wire: Wire, stream: str
) -> None:
    wire.ask(topic_of(stream))
    wire.ask(topic_of("other", stream=stream))
    stream_id = wire.ask(GetStream(stream)).stream.id
    on_topic = {0: TopicPermissions(send_messages=True), 1: TopicPermissions(send_messages=True)}
    grants = Permissions(streams={stream_id: StreamPermissions(True, topics=on_topic)})
    topic_grants = Permissions(streams={stream_id: StreamPermissions(topics=on_topic)})
    with one_per_shard(standing_broker) as sessions:
        for session in sessions:
            session.ask(LoginUser("ann", PASSWORD))
        wire.ask(UpdatePermissions(ann, topic_grants))
        assert [session.send(stream, 0, b"message") for session in sessions] == [0, 0]
        wire.ask(DeleteTopic(stream, stream))
        wire.ask(topic_of(stream))
        for session in sessions:
            assert session.send(stream, 0, b"message") == Unauthorized.status
            assert session.send("other", 0, b"message", stream=stream) == 0
        wire.ask(UpdatePermissions(ann, grants))
        assert [session.send(stream, 0, b"message") for session in sessions] == [0, 0]
        wire.ask(DeleteStream(stream))
        wire.ask(CreateStream(stream))
        wire.ask(topic_of(stream))
        assert wire.ask(GetStream(stream)).stream.id == stream_id
        for session in sessions:
            assert session.send(stream, 0, b"message") == Unauthorized.status
            assert session.status(GetStream(stream)) == Unauthorized.status
    assert wire.ask(GetUser(ann)).permissions == Permissions()
