"""Requests of the 0.9 generation, built before anything is measured.

    256 bytes of header     its request number changes with every send
    metadata_length, stream, topic, partitioning, messages_count
    256 bytes of batch      origin timestamp and checksum change with every send
    frames                  48 bytes, then the payload

The checksum of a frame does not cover its timestamp, so only that of the batch is made again: over
44 bytes and the checksums of all frames, which are kept side by side for that.
"""

import random
import struct
from dataclasses import dataclass
from typing import Final

import xxhash

from borzoi.bench.batches import SendFrame, build_send_frames
from borzoi.bench.plans import ActorPlan, Credentials
from borzoi.protocol.batch import decode_batch
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.sessions import Register
from borzoi.protocol.consensus.evictions import HEADER_SIZE, NEWEST
from borzoi.protocol.consensus.layout import FIELDS, FIELDS_AT, REQUEST
from borzoi.protocol.consensus.operations import QUERY, REGISTER, SEND
from borzoi.protocol.consensus.register import encode_register
from borzoi.protocol.edge_layouts import (
    BATCH_CHECKED,
    BATCH_HEADER,
    BATCH_HEADER_SIZE,
    FRAME_HEADER,
    NO_RESERVED,
)
from borzoi.protocol.framing import REQUEST_HEADER
from borzoi.protocol.message import Message
from borzoi.protocol.send_messages import decode_send_messages

NUMBER_AT: Final = 168
ORIGIN_AT: Final = 24
CHECKSUM_AT: Final = 40
ORIGIN_IN_CHECKED: Final = 24
FRAME_CHECKSUM_SIZE: Final = 8
ID_SIZE: Final = 16
NO_CHECKSUM: Final = bytes(16)
U64: Final = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Session:
    """Who a connection is once it has logged in."""

    client: bytes
    number: int


@dataclass(frozen=True, slots=True)
class ConsensusFrame(SendFrame):
    """One batch. `checked` is what its checksum is made of, `batch_at` where its header lies."""

    checked: bytearray
    batch_at: int

    def stamp(self, request: int, origin_us: int) -> None:
        """Number the request, and say when its messages were made."""
        U64.pack_into(self.frame, NUMBER_AT, request)
        U64.pack_into(self.frame, self.batch_at + ORIGIN_AT, origin_us)
        U64.pack_into(self.checked, ORIGIN_IN_CHECKED, origin_us)
        checksum = xxhash.xxh3_64_intdigest(self.checked)
        U64.pack_into(self.frame, self.batch_at + CHECKSUM_AT, checksum)


def request_frame(
    session: Session, operation: int, payload: bytes, *, code: int = 0, number: int = 0
) -> bytearray:
    """A whole request."""
    frame = bytearray(HEADER_SIZE) + payload
    FIELDS.pack_into(
        frame,
        FIELDS_AT,
        len(frame),
        REQUEST,
        session.client,
        NO_CHECKSUM,
        number,
        operation,
        session.number,
        code,
    )
    return frame


def login_frame(client: bytes, credentials: Credentials) -> bytearray:
    """The first request of a connection."""
    login = Register(NEWEST, "borzoi-bench", "1", credentials.username, credentials.password)
    return request_frame(Session(client, 0), REGISTER, encode_register(login))


def poll_request(session: Session, payload: bytes) -> bytearray:
    """A poll; its payload is the classic one."""
    return request_frame(session, QUERY, payload, code=Code.POLL_MESSAGES, number=1)


def build_consensus_frames(plan: ActorPlan, session: Session) -> list[ConsensusFrame]:
    """The batches of a plan, each made of the messages of its classic request."""
    chance = random.Random(plan.actor_id)
    classic = build_send_frames(
        plan.stream,
        plan.topic,
        plan.partition_id,
        plan.message_size,
        plan.messages_per_batch,
        seed=plan.actor_id,
    )
    return [_converted(frame, session, chance) for frame in classic]


def _converted(classic: SendFrame, session: Session, chance: random.Random) -> ConsensusFrame:
    request = memoryview(classic.frame)[REQUEST_HEADER.size :]
    sent = decode_send_messages(request)
    (metadata_size,) = struct.unpack_from("<I", request)
    metadata = bytes(request[: 4 + metadata_size])
    frames = [
        _frame(message, number, chance.randbytes(ID_SIZE))
        for number, message in enumerate(decode_batch(sent.batch))
    ]
    length = BATCH_HEADER_SIZE + sum(map(len, frames))
    count = len(frames)
    checked = bytearray(BATCH_CHECKED.pack(0, 0, 0, 0, length, count))
    checked += b"".join(frame[:FRAME_CHECKSUM_SIZE] for frame in frames)
    header = BATCH_HEADER.pack(0, 0, 0, 0, length, 0, count, NO_RESERVED)
    whole = request_frame(session, SEND, b"".join((metadata, header, *frames)))
    shift = HEADER_SIZE - REQUEST_HEADER.size
    return ConsensusFrame(
        frame=whole,
        message_count=count,
        user_bytes=classic.user_bytes,
        total_bytes=len(whole),
        origin_at=HEADER_SIZE + len(metadata) + ORIGIN_AT,
        partition_at=None if classic.partition_at is None else classic.partition_at + shift,
        checked=checked,
        batch_at=HEADER_SIZE + len(metadata),
    )


def _frame(message: Message, delta: int, message_id: bytes) -> bytes:
    fields = FRAME_HEADER.pack(0, message_id, delta, 0, 0, len(message.payload), 0)
    covered = fields[FRAME_CHECKSUM_SIZE:] + message.payload
    return U64.pack(xxhash.xxh3_64_intdigest(covered)) + covered
