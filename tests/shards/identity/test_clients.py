"""What becomes of sessions when their user goes."""

from dataclasses import dataclass
from typing import cast

from borzoi.protocol.responses.clients import Transport
from borzoi.shards.identity.clients import Clients
from borzoi.shards.metadata.effects import Effects
from borzoi.shards.rings.gather import Gather


@dataclass(eq=False)
class FakeSession:
    client_id: int
    user_id: int | None
    transport: Transport = Transport.TCP
    address: str = "127.0.0.1:1"
    was_removed: bool = False
    suspended_user: int | None = None
    last_heartbeat: float = 0.0


def connected(*sessions: FakeSession) -> Clients:
    clients = Clients(cast(Gather, None), lambda _client_id: [])
    for session in sessions:
        clients.add(session)
    return clients


def test_sessions_of_a_removed_user_have_no_user_and_are_unknown() -> None:
    ann, ann_again, ben, guest = (
        FakeSession(1, 7), FakeSession(2, 7), FakeSession(3, 8), FakeSession(4, None),
    )  # fmt: skip
    clients = connected(ann, ann_again, ben, guest)
    assert clients.apply_effects(Effects(1, users_removed=[7])) == [1, 2]
    assert [ann.user_id, ann_again.user_id, ben.user_id, guest.user_id] == [None, None, 8, None]
    assert [ann.was_removed, ben.was_removed, guest.was_removed] == [True, False, False]
    assert not clients.is_registered(ann)
    assert not clients.is_registered(ann_again)
    assert clients.is_registered(ben)
    assert clients.is_registered(guest)


def test_sessions_of_an_inactive_user_are_logged_out_and_stay() -> None:
    ann, ben = FakeSession(1, 7), FakeSession(2, 8)
    clients = connected(ann, ben)
    assert clients.apply_effects(Effects(1)) == []
    assert clients.apply_effects(Effects(1, users_disabled=[7])) == [1]
    assert (ann.user_id, ann.was_removed) == (None, False)
    assert ben.user_id == 8
    assert clients.is_registered(ann)


def test_a_user_who_was_inactive_and_then_removed_is_removed() -> None:
    ann, ben = FakeSession(1, 7), FakeSession(2, 8)
    clients = connected(ann, ben)
    clients.apply_effects(Effects(1, users_disabled=[7]))
    assert clients.apply_effects(Effects(2, users_removed=[7])) == [1]
    assert ann.was_removed
    assert not clients.is_registered(ann)
    assert not ben.was_removed


def test_a_silent_session_loses_its_user_too() -> None:
    """It is not registered any more, but its connection goes on; the id is the next user's."""
    ann, ben = FakeSession(1, 7), FakeSession(2, 8)
    clients = connected(ann, ben)
    for one in (ann, ben):
        clients.evict(one)
        assert not clients.is_registered(one)
    assert clients.here_count == 0
    assert clients.apply_effects(Effects(1, users_removed=[7], users_disabled=[8])) == [1, 2]
    assert (ann.user_id, ann.was_removed) == (None, True)
    assert (ben.user_id, ben.was_removed) == (None, False)
    clients.remove(ben)
    assert clients.apply_effects(Effects(2, users_removed=[8])) == []


def test_a_session_that_lost_its_user_on_the_way_is_not_registered() -> None:
    late = FakeSession(1, None, was_removed=True)
    assert not connected(late).is_registered(late)
