"""The present code answers recorded sessions of commit e2dfe56 byte for byte.

What may differ is said in masks.py. Between them the sessions hold every command code, answered
with success, and 33 statuses.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from borzoi.protocol.codes import Code
from tests.broker import QUIC
from tests.certificates import Authority
from tests.replay.brokers import GOLDEN, running
from tests.replay.cutting import HEADER
from tests.replay.doors import door_through, plain
from tests.replay.masks import Renaming, fields_of
from tests.replay.player import Player
from tests.replay.session import Kind, answers, load_session
from tests.ways import client_context, with_tls

FILES = sorted(GOLDEN.glob("session-*.xz"))
NAMES = [path.name for path in FILES]
# Recorded on one shard. On two, requests cross the rings, and the answers are the same.
ON_TWO_SHARDS = [("session-own.xz", 2), ("session-raw.xz", 2)]
# What the raw session sends ends connections by half a frame, which QUIC has no place for.
THROUGH_DOORS = [
    *(("session-own.xz", way) for way in ("tls", "ws", "wss", "quic")),
    *(("session-raw.xz", way) for way in ("ws", "wss")),
]
STATUS_SIZE = 4
LOOKED_AT = 4000


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shards"), [*((name, 1) for name in NAMES), *ON_TWO_SHARDS])
def test_the_answers_are_those_of_then(name: str, shards: int) -> None:
    session = load_session(GOLDEN / name)
    with running(session.settings, shards=shards) as broker:
        player = Player(plain(broker))
        assert player.play(session) == []
    assert player.answers_count == sum(event.kind is Kind.ANSWER for event in session.events)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "way"), THROUGH_DOORS)
def test_the_answers_are_the_same_through_every_door(name: str, way: str, tmp_path: Path) -> None:
    session = load_session(GOLDEN / name)
    authority = Authority()
    more = QUIC
    if way in ("tls", "wss"):
        more = with_tls(authority.issue(tmp_path))
    with running({**session.settings, **more}) as broker:
        player = Player(door_through(broker, way, client_context(authority.pem)))
        assert player.play(session) == []
    assert player.answers_count == sum(event.kind is Kind.ANSWER for event in session.events)


def test_every_command_was_answered_with_success_and_most_with_errors() -> None:
    statuses: defaultdict[int, set[int]] = defaultdict(set)
    for path in FILES:
        for code, answer in recorded(path.name):
            statuses[code].add(HEADER.unpack_from(answer)[0])
    assert {code for code in Code if 0 not in statuses[code]} == set()
    assert {code for code in Code if statuses[code] == {0}} == set()


@pytest.mark.parametrize("name", NAMES)
def test_every_byte_that_has_no_mask_is_compared(name: str) -> None:
    seen: set[tuple[int, int]] = set()
    for code, answer in recorded(name):
        status = HEADER.unpack_from(answer)[0]
        if (code, status) in seen or not HEADER.size < len(answer) < LOOKED_AT:
            continue
        if code in (Code.GET_CLIENTS, Code.GET_SNAPSHOT):
            continue
        seen.add((code, status))
        assert Renaming().difference(code, answer, answer) is None
        for at in compared(code, answer):
            changed = bytearray(answer)
            changed[at] ^= 1
            assert is_noticed(code, answer, bytes(changed)), (code, at, answer.hex())


def recorded(name: str) -> Iterator[tuple[int, bytes]]:
    """Every answer with the code of its request."""
    session = load_session(GOLDEN / name)
    return ((code, session.events[place].data) for place, code in answers(session))


def compared(code: int, answer: bytes) -> Iterator[int]:
    """The positions of an answer that have no mask."""
    at = 0
    for field in fields_of(code, answer):
        for _ in field.data:
            if field.mask is None:
                # The length of the payload follows the status, and is the sum of the fields.
                yield at if at < STATUS_SIZE else at + HEADER.size - STATUS_SIZE
            at += 1


def is_noticed(code: int, answer: bytes, changed: bytes) -> bool:
    try:
        return Renaming().difference(code, answer, changed) is not None
    except ValueError:
        return True


def test_a_renamed_value_keeps_its_new_name() -> None:
    def created_at(time: int) -> bytes:
        stream = b"".join((bytes(4), time.to_bytes(8, "little"), bytes(20), b"\1s"))
        return HEADER.pack(0, len(stream)) + stream

    renaming = Renaming()
    assert renaming.difference(Code.CREATE_STREAM, created_at(10), created_at(20)) is None
    assert renaming.difference(Code.GET_STREAM, created_at(10), created_at(20)) is None
    assert renaming.difference(Code.GET_STREAM, created_at(10), created_at(21)) is not None
    assert renaming.difference(Code.GET_STREAM, created_at(0), created_at(20)) is not None
