"""Metadata commands on their way to shard 0: a code and bytes.

Most travel as a client sent them. Those that held a secret travel as what is left of it: the
codes are the same, the bytes are MessagePack, and there is no way to propose the original.
"""

from typing import Any, Final

import msgspec

from borzoi.protocol.codes import Code
from borzoi.protocol.generations import CLASSIC, code_of, encode_command
from borzoi.shards.metadata.commands import CreateHashedUser, CreateToken, SetPasswordHash

_HASHED: Final[dict[int, type[Any]]] = {
    Code.CREATE_USER: CreateHashedUser,
    Code.CHANGE_PASSWORD: SetPasswordHash,
    Code.CREATE_PERSONAL_ACCESS_TOKEN: CreateToken,
}
_CODES: Final = {command: code for code, command in _HASHED.items()}
_encoder: Final = msgspec.msgpack.Encoder()
_decoders: Final = {code: msgspec.msgpack.Decoder(command) for code, command in _HASHED.items()}


def proposal_code(command: Any) -> int:
    """The code of the client's command that a command for the metadata log comes from."""
    code = _CODES.get(type(command))
    if code is not None:
        return code
    code = code_of(command)
    assert code not in _HASHED, f"{type(command).__name__} holds a secret"
    return code


def encode_proposal(command: Any) -> tuple[int, bytes]:
    """Code and bytes of a command for the metadata log."""
    code = proposal_code(command)
    return code, (_encoder.encode if code in _HASHED else encode_command)(command)


def decode_proposal(code: int, payload: bytes) -> Any:
    """The command that another shard proposes."""
    decoder = _decoders.get(code)
    if decoder is not None:
        return decoder.decode(payload)
    return CLASSIC.requests[code](memoryview(payload))
