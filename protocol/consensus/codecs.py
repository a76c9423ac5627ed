"""The payloads of the consensus generation, where they differ from the classic ones.

Nine requests and eleven answers, a login of its own and two more commands. Trailing bytes that the
classic layouts ignore are options here. How a batch is read is in send.py.
"""

import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from borzoi.protocol import classic
from borzoi.protocol import commands as c
from borzoi.protocol import responses as r
from borzoi.protocol.codec import CommandCodec, OrEmpty, PayloadCodec, Row, codecs, payload_codec
from borzoi.protocol.codes import Code, LaterCode
from borzoi.protocol.commands.topics import COMPRESSION_MIN, KEPT
from borzoi.protocol.consensus.options import TRAILING_OPTIONS
from borzoi.protocol.consensus.register import decode_register, encode_register
from borzoi.protocol.errors import InvalidCommand
from borzoi.protocol.kinds import (
    Kind,
    absent,
    counted,
    listed,
    pack_blob,
    read_blob,
)
from borzoi.protocol.layout import Fields, fields_of
from borzoi.protocol.payload import PayloadReader

ACKS: Final = (0, 1)  # of this node, of a quorum: the same here


def _read_ack(reader: PayloadReader) -> int:
    ack = reader.u8() if reader.remaining else ACKS[-1]
    if ack not in ACKS:
        raise InvalidCommand(f"acknowledgement level {ack}, there are 0 and 1")
    return ack


ACK: Final = Kind(_read_ack, lambda _: bytes((ACKS[-1],)), 0)
BLOB: Final = Kind(read_blob, pack_blob, 4)
NO_OPTIONS: Final = Kind(read_blob, lambda _: bytes(4), 4)
"""Streams and users have no options."""


def _with(layout: type[Any], **fields: Any) -> Fields:
    return fields_of(layout) | fields


SETTINGS_OF_NEW: Final[Fields] = {
    "compression_algorithm": absent(COMPRESSION_MIN),
    "message_expiry": absent(0),
    "max_topic_size": absent(0),
    "replication_factor": absent(0),
}
SETTINGS_KEPT: Final[Fields] = {name: absent(KEPT) for name in SETTINGS_OF_NEW}


def _topic(layout: type[Any], settings: Fields) -> Fields:
    """A topic in a request: settings that have fields of their own elsewhere are options here."""
    on_wire = {name: kind for name, kind in fields_of(layout).items() if name not in settings}
    return {**settings, **on_wire, "options": TRAILING_OPTIONS}


LAYOUTS: Final = classic.LAYOUTS.changed(
    fields={
        c.CreateUser: _with(c.CreateUser, options=TRAILING_OPTIONS),
        c.UpdateUser: _with(c.UpdateUser, options=TRAILING_OPTIONS),
        c.CreateStream: _with(c.CreateStream, options=TRAILING_OPTIONS),
        c.UpdateStream: _with(c.UpdateStream, options=TRAILING_OPTIONS),
        c.CreateTopic: _topic(c.CreateTopic, SETTINGS_OF_NEW),
        c.UpdateTopic: _topic(c.UpdateTopic, SETTINGS_KEPT),
        c.StoreConsumerOffset: _with(c.StoreConsumerOffset, ack=ACK),
        c.DeleteConsumerOffset: _with(c.DeleteConsumerOffset, ack=ACK),
        r.StreamInfo: _with(r.StreamInfo, options=NO_OPTIONS),
        r.UserInfo: _with(r.UserInfo, options=NO_OPTIONS),
        r.TopicInfo: _with(
            r.TopicInfo, replication_factor=absent(1), explicit_options=BLOB, derived_options=BLOB
        ),
    }
)

_confirmations: Final = payload_codec(LAYOUTS, counted(r.SentBatch))


def _decode_confirmation(payload: memoryview) -> r.SentBatch:
    sent: r.SentBatch
    (sent,) = _confirmations.decode(payload)
    return sent


_CONFIRMATION: Final = struct.Struct("<IIIIQ")

encode_confirmation: Final[Callable[[int, int, int, int], bytes]] = partial(_CONFIRMATION.pack, 1)
"""A list of the partitions that were written to, one of them: stream, topic, partition, offset.

Each send is answered with one: its layout is written out here."""

CONFIRMATION: Final = PayloadCodec(
    _decode_confirmation,
    lambda sent: encode_confirmation(
        sent.stream_id, sent.topic_id, sent.partition_id, sent.base_offset
    ),
)

_CLASSIC_ONLY: Final = (Code.LOGIN_USER, Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN)

ROWS: Final[Mapping[int, Row]] = {
    **{code: row for code, row in classic.ROWS.items() if code not in _CLASSIC_ONLY},
    LaterCode.LOGIN_REGISTER: Row(
        c.Register, r.Registered, PayloadCodec(decode_register, encode_register)
    ),
    LaterCode.DESCRIBE_OPTIONS: Row(c.DescribeOptions, counted(r.OptionDescription)),
    LaterCode.SYNC_CONSUMER_GROUP: Row(c.SyncConsumerGroup, OrEmpty(r.GroupAssignment)),
    Code.GET_TOPICS: Row(c.GetTopics, OrEmpty(counted(r.TopicInfo), without=())),
    Code.GET_USERS: Row(c.GetUsers, listed(r.UserInfo)),
    Code.SEND_MESSAGES: classic.ROWS[Code.SEND_MESSAGES]._replace(answer=CONFIRMATION),
}

CODECS: Final[Mapping[int, CommandCodec]] = codecs(LAYOUTS, ROWS)
