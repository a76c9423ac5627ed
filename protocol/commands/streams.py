"""Requests about streams."""

from dataclasses import dataclass

from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.payload import PayloadReader, pack_identifier, pack_str8


@dataclass(frozen=True, slots=True)
class GetStream:
    """One stream with its topics."""

    stream: Identifier


def decode_get_stream(payload: memoryview) -> GetStream:
    return GetStream(PayloadReader(payload).identifier())


def encode_get_stream(command: GetStream) -> bytes:
    return pack_identifier(command.stream)


@dataclass(frozen=True, slots=True)
class GetStreams:
    """All streams."""


def decode_get_streams(_payload: memoryview) -> GetStreams:
    return GetStreams()


def encode_get_streams(_command: GetStreams) -> bytes:
    return b""


@dataclass(frozen=True, slots=True)
class CreateStream:
    """A new stream; the server chooses its id."""

    name: str


def decode_create_stream(payload: memoryview) -> CreateStream:
    return CreateStream(PayloadReader(payload).str8())


def encode_create_stream(command: CreateStream) -> bytes:
    return pack_str8(command.name)


@dataclass(frozen=True, slots=True)
class DeleteStream:
    """A stream with everything in it."""

    stream: Identifier


def decode_delete_stream(payload: memoryview) -> DeleteStream:
    return DeleteStream(PayloadReader(payload).identifier())


def encode_delete_stream(command: DeleteStream) -> bytes:
    return pack_identifier(command.stream)


@dataclass(frozen=True, slots=True)
class UpdateStream:
    """A new name for a stream."""

    stream: Identifier
    name: str


def decode_update_stream(payload: memoryview) -> UpdateStream:
    reader = PayloadReader(payload)
    return UpdateStream(reader.identifier(), reader.str8())


def encode_update_stream(command: UpdateStream) -> bytes:
    return pack_identifier(command.stream) + pack_str8(command.name)


@dataclass(frozen=True, slots=True)
class PurgeStream:
    """Forget all messages of a stream, keep its topics."""

    stream: Identifier


def decode_purge_stream(payload: memoryview) -> PurgeStream:
    return PurgeStream(PayloadReader(payload).identifier())


def encode_purge_stream(command: PurgeStream) -> bytes:
    return pack_identifier(command.stream)
