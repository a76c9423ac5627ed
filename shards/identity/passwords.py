"""Password hashes: Argon2id in the text form that carries its own parameters and salt.

One check costs tens of milliseconds of CPU and 19 MiB: callers on an event loop run these in a
thread. Nothing here keeps state. Always: a hash that cannot be read matches no password.
"""

from __future__ import annotations

from typing import Final

from argon2 import PasswordHasher, extract_parameters
from argon2.exceptions import Argon2Error, InvalidHashError

TIME_COST: Final = 2
MEMORY_COST_KIB: Final = 19456
PARALLELISM: Final = 1

# A damaged hash must not make the check take minutes or all the memory.
TIME_COST_MAX: Final = 64
MEMORY_COST_KIB_MAX: Final = 1 << 20

HASHER: Final = PasswordHasher(
    time_cost=TIME_COST, memory_cost=MEMORY_COST_KIB, parallelism=PARALLELISM
)


def hash_password(password: str) -> str:
    """The hash of `password` with a fresh salt; never the same text twice."""
    return HASHER.hash(password)


def verify_password(hashed: str, password: str) -> bool:
    """Whether `hashed` was made from `password`. False for a hash that is damaged."""
    try:
        parameters = extract_parameters(hashed)
        if parameters.time_cost > TIME_COST_MAX or parameters.memory_cost > MEMORY_COST_KIB_MAX:
            return False
        return HASHER.verify(hashed, password)
    except (Argon2Error, InvalidHashError, ValueError):
        # ValueError: text that is no ASCII hash, or a password that is no valid Unicode.
        return False
