"""Whether this processor orders memory strictly enough for shared words in plain Python.

Rings and board rely on two promises: stores become visible in the order they were made, and loads
happen in the order they were written. The architecture x86-64 promises both for ordinary
instructions. Others (aarch64) do not. There, words have to be read with acquire and written with
release semantics, which Python cannot say and a compiled module can. One shard alone shares
nothing. Owns nothing; asked once at boot.
"""

from typing import Final

ORDERED_MACHINES: Final = frozenset({"x86_64", "amd64"})


class UnorderedProcessor(RuntimeError):
    """The processor cannot run several shards without the compiled words."""


def needs_compiled_words(machine: str, shard_count: int) -> bool:
    """True when plain Python stores and loads are not ordered enough for this many shards.

    `machine` is what platform.machine() says.
    """
    return shard_count > 1 and machine.lower() not in ORDERED_MACHINES


def check_processor(machine: str, shard_count: int, compiled: bool) -> None:
    """Refuse to boot where shards would see each other's words out of order."""
    if needs_compiled_words(machine, shard_count) and not compiled:
        raise UnorderedProcessor(
            f"{shard_count} shards on {machine or 'an unknown processor'} need the compiled "
            "module for shared memory, which is not installed: only x86-64 keeps the order of "
            'stores and loads by itself. Run with one shard (cpu_allocation = "1") instead.'
        )
