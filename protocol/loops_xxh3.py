"""Where the C function behind the xxhash package lies, for loops that call it without Python.

The package's own extension module exports it, without a promise. So a function found under one
of the names must prove itself before it is used; if none does, hashing goes through the
package's Python interface, which costs a call per message.
"""

import ctypes
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final

import xxhash

# The first picks the widest vector instructions this processor has; only x86 builds have it.
NAMES: Final = ("XXH3_64bits_dispatch", "XXH3_64bits")

# One for each way in which XXH3 treats inputs of a certain length, the longest with several
# stripes and blocks; every byte differs from its neighbours.
PROOF_LENGTHS: Final = (0, 1, 3, 4, 8, 9, 16, 17, 128, 129, 240, 241, 1024, 1025, 4096)
PROOFS: Final = tuple(bytes(at * 7 % 251 for at in range(length)) for length in PROOF_LENGTHS)
KNOWN_DIGESTS: Final = {b"": 0x2D06800538D394C2, b"iggy": 0xB421037ED388F177}


def xxh3_address(names: Sequence[str] = NAMES) -> int:
    """The address of a function (bytes, size) -> XXH3 of 64 bits; 0 when there is none."""
    try:
        extension = import_module("xxhash._xxhash")
        library = ctypes.CDLL(extension.__file__)
    except (ImportError, OSError):
        return 0
    for name in names:
        try:
            function = library[name]
        except AttributeError:
            continue
        function.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
        function.restype = ctypes.c_uint64
        if _is_xxh3(function):
            return ctypes.cast(function, ctypes.c_void_p).value or 0
    return 0


def _is_xxh3(function: Callable[[bytes, int], int]) -> bool:
    known = all(function(text, len(text)) == digest for text, digest in KNOWN_DIGESTS.items())
    return known and all(
        function(proof, len(proof)) == xxhash.xxh3_64_intdigest(proof) for proof in PROOFS
    )
