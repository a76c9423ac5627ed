"""The permission table, cell by cell where it matters."""

from dataclasses import fields

import pytest
from msgspec import convert

from borzoi.protocol.codes import Code
from borzoi.protocol.permissions import (
    ALL_PERMISSIONS,
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from borzoi.shards.metadata.permissions import RULES, can
from tests.shards.decisions.commands import create_user, small_world

STREAM, TOPIC = 3, 5
GLOBAL_FLAGS = [f.name for f in fields(GlobalPermissions)]
STREAM_FLAGS = [f.name for f in fields(StreamPermissions) if f.name != "topics"]
TOPIC_FLAGS = [f.name for f in fields(TopicPermissions)]
GRANTS = (
    [f"G {flag}" for flag in GLOBAL_FLAGS]
    + [f"S {flag}" for flag in STREAM_FLAGS]
    + [f"T {flag}" for flag in TOPIC_FLAGS]
)

READ_TOPICS = (
    "G manage_streams, G read_streams, G manage_topics, G read_topics,"
    " S manage_stream, S read_stream, S manage_topics, S read_topics"
)
MANAGE_TOPICS = "G manage_streams, G manage_topics, S manage_stream, S manage_topics"

# Written down a second time, by hand and in another shape, so that a slip in either shows.
EXPECTED = {
    "GET_STATS GET_CLIENT GET_CLIENTS GET_SNAPSHOT": "G manage_servers, G read_servers",
    "GET_USER GET_USERS": "G manage_users, G read_users",
    "CREATE_USER UPDATE_USER DELETE_USER UPDATE_PERMISSIONS CHANGE_PASSWORD": "G manage_users",
    "GET_STREAMS": "G manage_streams, G read_streams",
    "GET_STREAM": "G manage_streams, G read_streams, S manage_stream, S read_stream",
    "CREATE_STREAM": "G manage_streams",
    "UPDATE_STREAM DELETE_STREAM PURGE_STREAM": "G manage_streams, S manage_stream",
    "GET_TOPICS": READ_TOPICS,
    "GET_TOPIC GET_CONSUMER_GROUP GET_CONSUMER_GROUPS CREATE_CONSUMER_GROUP"
    " DELETE_CONSUMER_GROUP JOIN_CONSUMER_GROUP LEAVE_CONSUMER_GROUP": READ_TOPICS
    + ", T manage_topic, T read_topic",
    "CREATE_TOPIC": MANAGE_TOPICS,
    "UPDATE_TOPIC DELETE_TOPIC PURGE_TOPIC CREATE_PARTITIONS DELETE_PARTITIONS"
    " DELETE_SEGMENTS": MANAGE_TOPICS + ", T manage_topic",
    "POLL_MESSAGES GET_CONSUMER_OFFSET STORE_CONSUMER_OFFSET DELETE_CONSUMER_OFFSET": READ_TOPICS
    + ", G poll_messages, S poll_messages, T manage_topic, T read_topic, T poll_messages",
    "SEND_MESSAGES FLUSH_UNSAVED_BUFFER": MANAGE_TOPICS
    + ", G send_messages, S send_messages, T manage_topic, T send_messages",
}
FREE = {
    Code.PING,
    Code.LOGIN_USER,
    Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN,
    Code.LOGOUT_USER,
    Code.GET_ME,
    Code.GET_CLUSTER_METADATA,
    Code.GET_PERSONAL_ACCESS_TOKENS,
    Code.CREATE_PERSONAL_ACCESS_TOKEN,
    Code.DELETE_PERSONAL_ACCESS_TOKEN,
}


def granted(grant: str) -> Permissions:
    """Permissions with this one flag, on this one stream or topic."""
    level, flag = grant.split()
    one = {flag: True}
    if level == "G":
        return Permissions(GlobalPermissions(**one))
    if level == "S":
        return Permissions(streams={STREAM: convert(one, StreamPermissions)})
    topics = {TOPIC: TopicPermissions(**one)}
    return Permissions(streams={STREAM: StreamPermissions(topics=topics)})


def allows(
    permissions: Permissions | None,
    code: Code,
    stream: int | None = STREAM,
    topic: int | None = TOPIC,
) -> bool:
    world = small_world()
    world.run(create_user("ann", permissions))
    return can(world.state, 1, code, stream, topic)


def test_every_code_has_a_rule() -> None:
    named = {Code[name] for names in EXPECTED for name in names.split()}
    assert named | FREE == set(Code) == set(RULES)
    assert not named & FREE


@pytest.mark.parametrize(("names", "grants"), EXPECTED.items())
def test_each_flag_alone(names: str, grants: str) -> None:
    enough = set(grants.split(", "))
    assert enough <= set(GRANTS)
    for name in names.split():
        for grant in GRANTS:
            assert allows(granted(grant), Code[name]) == (grant in enough), (name, grant)
            if not grant.startswith("G"):
                # The same grant says nothing about another stream or topic, or about none.
                assert not allows(granted(grant), Code[name], STREAM + 1, TOPIC)
                assert not allows(granted(grant), Code[name], None, None)
            if grant.startswith("T"):
                assert not allows(granted(grant), Code[name], STREAM, TOPIC + 1)
                assert not allows(granted(grant), Code[name], STREAM, None)


@pytest.mark.parametrize("code", Code)
def test_none_and_all(code: Code) -> None:
    assert allows(ALL_PERMISSIONS, code)
    assert allows(None, code) == (code in FREE)
    assert allows(Permissions(), code) == (code in FREE)


def test_a_user_that_is_gone_may_do_nothing_that_needs_a_flag() -> None:
    state = small_world().state
    assert can(state, 0, Code.GET_STATS)
    assert not can(state, 1, Code.GET_STATS)


def test_a_narrower_level_takes_nothing_away() -> None:
    permissions = Permissions(
        GlobalPermissions(send_messages=True),
        {STREAM: StreamPermissions(topics={TOPIC: TopicPermissions()})},
    )
    assert allows(permissions, Code.SEND_MESSAGES)
    assert not allows(permissions, Code.POLL_MESSAGES)


def test_what_anyone_may_send_before_login() -> None:
    assert {code for code, rule in RULES.items() if rule.anyone} == {
        Code.PING,
        Code.LOGIN_USER,
        Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN,
    }
