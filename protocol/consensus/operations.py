"""What a request of the consensus framing wants: an operation of one byte, and the code it means.

Operations that change something have a number of their own. Everything else travels as QUERY, with
the classic code beside it. The answer to most of the former begins with a result section:

    success    0 u32, then the payload
    refusal    1 u32 | 0 u32 | status u32, and nothing else
"""

import struct
from collections.abc import Mapping
from typing import Final

from borzoi.protocol.codes import Code, LaterCode

REGISTER: Final = 1
QUERY: Final = 2
LOGOUT: Final = 3
SEND: Final = 160

CODES: Final[Mapping[int, int]] = {
    REGISTER: LaterCode.LOGIN_REGISTER,
    LOGOUT: Code.LOGOUT_USER,
    128: Code.CREATE_STREAM,
    129: Code.UPDATE_STREAM,
    130: Code.DELETE_STREAM,
    131: Code.PURGE_STREAM,
    132: Code.CREATE_TOPIC,
    133: Code.UPDATE_TOPIC,
    134: Code.DELETE_TOPIC,
    135: Code.PURGE_TOPIC,
    136: Code.CREATE_PARTITIONS,
    137: Code.DELETE_PARTITIONS,
    138: Code.DELETE_SEGMENTS,
    139: Code.CREATE_CONSUMER_GROUP,
    140: Code.DELETE_CONSUMER_GROUP,
    141: Code.CREATE_USER,
    142: Code.UPDATE_USER,
    143: Code.DELETE_USER,
    144: Code.CHANGE_PASSWORD,
    145: Code.UPDATE_PERMISSIONS,
    146: Code.CREATE_PERSONAL_ACCESS_TOKEN,
    147: Code.DELETE_PERSONAL_ACCESS_TOKEN,
    148: Code.JOIN_CONSUMER_GROUP,
    149: Code.LEAVE_CONSUMER_GROUP,
    SEND: Code.SEND_MESSAGES,
    161: Code.STORE_CONSUMER_OFFSET,
    162: Code.DELETE_CONSUMER_OFFSET,
}
OPERATIONS: Final[Mapping[int, int]] = {int(code): number for number, code in CODES.items()}
"""The operation of a code; one that is missing here travels as QUERY."""

NO_CODE: Final = -1
CODE_OF: Final = tuple(int(CODES.get(operation, NO_CODE)) for operation in range(256))

WITHOUT_SECTION: Final = frozenset({QUERY, LOGOUT, OPERATIONS[Code.DELETE_SEGMENTS], SEND})
HAS_SECTION: Final = tuple(
    operation in CODES and operation not in WITHOUT_SECTION for operation in range(256)
)
STAMPED: Final = frozenset({REGISTER, LOGOUT, *range(128, 150)})
"""Operations whose requests carry the hash of their body."""

LOGINS_IN_QUERIES: Final = frozenset(
    {Code.LOGIN_USER, Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN, LaterCode.LOGIN_REGISTER, 45}
)
"""A login is operation 1 here. 45 is the login with a token, which has no other number."""

SUCCEEDED: Final = bytes(4)
REFUSAL: Final = struct.Struct("<III")
