"""The login of the consensus generation, in two shapes under one operation.

    protocol version u32 | sdk name str8 | sdk version str8, then
        user name str8 | password str8 | context str32      with a password
        token str8 | context str32                          with a token

Nothing says which it is. The first shape is tried first, and has to end where the payload ends.
"""

from typing import Final

from borzoi.protocol.commands.sessions import Register
from borzoi.protocol.consensus.evictions import NEWEST, OLDEST
from borzoi.protocol.errors import BrokerError, IncompatibleProtocol, InvalidFormat
from borzoi.protocol.payload import U32, PayloadReader, pack_str8, pack_str32

MAJOR_BITS: Final = 20
MINOR_BITS: Final = 10
PART_MASK: Final = (1 << MINOR_BITS) - 1


def decode_register(payload: memoryview) -> Register:
    """The login in a payload."""
    reader = PayloadReader(payload)
    version = reader.u32()
    if not OLDEST <= version <= NEWEST:
        raise IncompatibleProtocol(
            f"a client of protocol {version_text(version)}, {version_text(OLDEST)} to"
            f" {version_text(NEWEST)} are served"
        )
    sdk_name, sdk_version = reader.str8(), reader.str8()
    behind = reader.at
    try:
        username, password = reader.str8(), reader.str8()
        context = _last(reader)
    except BrokerError:
        reader.at = behind
        token = reader.str8()
        return Register(version, sdk_name, sdk_version, token=token, context=_last(reader))
    return Register(version, sdk_name, sdk_version, username, password, context=context)


def encode_register(register: Register) -> bytes:
    """What decode_register() reads."""
    secrets = (register.username, register.password, register.token)
    texts = (register.sdk_name, register.sdk_version, *(one for one in secrets if one is not None))
    version = U32.pack(register.protocol_version)
    return b"".join((version, *map(pack_str8, texts), pack_str32(register.context)))


def version_text(version: int) -> str:
    """A protocol version as it is written."""
    return f"{version >> MAJOR_BITS}.{version >> MINOR_BITS & PART_MASK}.{version & PART_MASK}"


def _last(reader: PayloadReader) -> str:
    text = reader.str32()
    if reader.remaining:
        raise InvalidFormat(f"{reader.remaining} bytes behind the login")
    return text
