"""Every command and every response, drawn at random, survives the wire."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borzoi.protocol import responses
from borzoi.protocol.classic import CODECS
from borzoi.protocol.codes import Code
from borzoi.protocol.errors import BrokerError
from borzoi.protocol.generations import (
    CLASSIC,
    code_of,
    decode_reply,
    encode_command,
    generation_for,
)
from tests.protocol import values

REPLIES: dict[Code, st.SearchStrategy[Any]] = {
    Code.GET_STATS: values.stats,
    Code.GET_SNAPSHOT: st.binary(max_size=50),
    Code.GET_CLUSTER_METADATA: st.builds(
        responses.ClusterMetadata, values.texts, values.tuples(values.nodes)
    ),
    Code.GET_ME: values.client_details,
    Code.GET_CLIENT: st.none() | values.client_details,
    Code.GET_CLIENTS: values.tuples(values.flat(responses.ClientInfo)),
    Code.GET_USER: st.none() | values.user_details,
    Code.GET_USERS: values.tuples(values.users),
    Code.CREATE_USER: values.user_details,
    Code.LOGIN_USER: values.identities,
    Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN: values.identities,
    Code.GET_PERSONAL_ACCESS_TOKENS: values.tuples(values.tokens),
    Code.CREATE_PERSONAL_ACCESS_TOKEN: values.flat(responses.RawToken),
    Code.POLL_MESSAGES: values.polled_messages,
    Code.GET_CONSUMER_OFFSET: st.none() | values.flat(responses.ConsumerOffsetInfo),
    Code.GET_STREAM: st.none() | values.stream_details,
    Code.GET_STREAMS: values.tuples(values.flat(responses.StreamInfo)),
    Code.CREATE_STREAM: values.flat(responses.StreamInfo),
    Code.GET_TOPIC: st.none() | values.topic_details,
    Code.GET_TOPICS: values.tuples(values.flat(responses.TopicInfo)),
    Code.CREATE_TOPIC: values.topic_details,
    Code.GET_CONSUMER_GROUP: st.none() | values.group_details,
    Code.GET_CONSUMER_GROUPS: values.tuples(values.flat(responses.ConsumerGroupInfo)),
    Code.CREATE_CONSUMER_GROUP: values.flat(responses.ConsumerGroupInfo),
}


@pytest.mark.slow
@pytest.mark.parametrize("code", list(Code), ids=lambda code: code.name)
@settings(max_examples=20)
@given(data=st.data())
def test_commands(code: Code, data: st.DataObject) -> None:
    command = data.draw(values.commands_of(CODECS[code].command))
    assert code_of(command) == code
    payload = encode_command(command)
    assert CLASSIC.requests[code](memoryview(payload)) == command
    if code != Code.SEND_MESSAGES:
        assert CLASSIC.requests[code](memoryview(payload + b"\1\2\3")) == command


@pytest.mark.slow
@pytest.mark.parametrize("code", list(Code), ids=lambda code: code.name)
@settings(max_examples=20)
@given(data=st.data())
def test_responses(code: Code, data: st.DataObject) -> None:
    value = data.draw(REPLIES.get(code, st.none()))
    payload = CLASSIC.replies[code](value)
    assert decode_reply(code, memoryview(payload)) == value


@pytest.mark.parametrize("code", [Code.GET_TOPICS, Code.GET_CONSUMER_GROUPS])
def test_lists_of_a_missing_parent_are_empty(code: Code) -> None:
    assert CLASSIC.replies[code](None) == b""
    assert decode_reply(code, memoryview(b"")) == ()


@pytest.mark.no_cover
@pytest.mark.slow
@settings(max_examples=500)
@given(code=st.sampled_from(Code), garbage=st.binary(max_size=200))
def test_garbage_gives_a_broker_error_or_a_value(code: Code, garbage: bytes) -> None:
    for decode in (CLASSIC.requests[code], CODECS[code].answer.decode):
        with suppress(BrokerError):
            decode(memoryview(garbage))


@pytest.mark.no_cover
@pytest.mark.slow
@settings(max_examples=500)
@given(
    vector=st.sampled_from([v for v in values.vectors() if v.code in CODECS]),
    at=st.integers(0, 10_000),
    byte=values.u8,
)
def test_a_damaged_frame_gives_a_broker_error_or_a_value(
    vector: values.Vector, at: int, byte: int
) -> None:
    codec = CODECS[vector.code]
    for decode, payload in (
        (codec.request.decode, vector.request),
        (codec.answer.decode, vector.response),
    ):
        if payload:
            damaged = bytearray(payload)
            damaged[at % len(damaged)] = byte
            with suppress(BrokerError):
                decode(memoryview(damaged))


@pytest.mark.parametrize("version", ["", "0.10.0", "0.9.1", "something else"])
def test_versions_of_today_are_classic(version: str) -> None:
    assert generation_for(version, True) is CLASSIC


def test_an_answer_where_none_belongs_is_our_own_fault() -> None:
    with pytest.raises(AssertionError):
        CLASSIC.replies[Code.PING](b"pong")
