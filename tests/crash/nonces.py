"""No nonce twice: count all that are drawn, whatever happens meanwhile.

Restarts, torn tails, failed writes, purges, and keys that are exchanged to and fro.

    python -m tests.crash.nonces --messages 1000000

The nonces are noted where they are drawn, together with the key of the segment they are used
with, so also those count that never reached the disk. What did reach it is compared afterwards:
every message on the disk has a nonce that was noted.
"""

import argparse
import errno
import random
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from borzoi.protocol.errors import CannotSaveMessagesToSegment
from borzoi.storage.encrypted import Encryption, SegmentCipher
from borzoi.storage.segment_form import HEADER_SIZE, NONCE_SIZE, form_of
from tests.storage.ciphers import KEY, NAMESPACE, OTHER_KEY
from tests.storage.faults import FailingFiles
from tests.storage.partitions import BIRTH, Partition, begin_next_life

BATCH_SIZE: Final = 50
LENGTHS: Final = struct.Struct("<48xII8x")


class Counted(NamedTuple):
    """What was seen."""

    messages: int
    drawn: int
    different: int
    opened: int
    torn: int
    failed: int
    purged: int
    exchanged: int  # segments that were encrypted once more


class Notes:
    """Every nonce drawn, with the salt of its segment's key."""

    def __init__(self) -> None:
        self.drawn = 0
        self.different: set[bytes] = set()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Note all nonces of this process from now on."""
        original = SegmentCipher._nonce

        def noting(cipher: SegmentCipher) -> bytes:
            nonce = original(cipher)
            self.drawn += 1
            self.different.add(cipher.header.salt + nonce)
            return nonce

        SegmentCipher._nonce = noting  # type: ignore[method-assign,assignment] # put back below
        try:
            yield
        finally:
            SegmentCipher._nonce = original  # type: ignore[method-assign] # as it was


def count_nonces(root: Path, messages: int, seed: int) -> Counted:
    """Append so many messages to one partition while everything happens to it."""
    rng = random.Random(seed)
    files = FailingFiles()
    encryption = Encryption(KEY, encrypts=True)
    cipher = encryption.partition(NAMESPACE, BIRTH)
    partition = Partition(root, segment_size_max=1 << 16, files=files, cipher=cipher)
    notes = Notes()
    appended = opened = torn = failed = purged = exchanged = 0
    with notes.taken():
        while appended < messages:
            for _ in range(rng.randrange(1, 20)):
                # Now and then a batch of several seals.
                payload = bytes(5000 if rng.randrange(20) == 0 else 7)
                count = rng.randrange(1, BATCH_SIZE)
                partition.append(*[payload] * count)
                appended += count
            match rng.randrange(5):
                case 0:
                    failed += _append_to_full_disk(partition, files)
                case 1:
                    torn += _tear_tail(partition, rng)
                    partition.reopen()
                    opened += 1
                case 2:
                    partition.reopen()
                    opened += 1
                case 3 if rng.randrange(10) == 0:
                    birth = partition.birth + 1
                    partition.cipher = encryption.partition(NAMESPACE, birth)
                    begin_next_life(partition, birth)
                    purged += 1
                case 4:
                    encryption.take(encryption.keys[::-1] if exchanged else (OTHER_KEY, KEY))
                    partition.log.roll()
                    exchanged += partition.reencrypt()
                case _:
                    pass
            if partition.log.written.segment_count > 20:
                partition.delete_oldest(10)
        for log in Path(partition.directory).glob("*.log"):
            assert _stored_nonces(log.read_bytes()) <= notes.different
    partition.log.close()
    return Counted(
        appended, notes.drawn, len(notes.different), opened, torn, failed, purged, exchanged
    )


def _append_to_full_disk(partition: Partition, files: FailingFiles) -> bool:
    """Whether the append failed; its offsets are given out again."""
    before = partition.log.written
    files.fail("write", errno.ENOSPC)
    try:
        partition.append(b"refused", b"refused")
        has_failed = False
    except CannotSaveMessagesToSegment:
        has_failed = True
    files.repair()
    assert partition.log.written == before
    return has_failed


def _tear_tail(partition: Partition, rng: random.Random) -> bool:
    """Whether the active log was cut, as by a crash; the lost offsets are given out again."""
    active = partition.log_file(partition.log.written.active_segment)
    size = active.stat().st_size
    if size <= HEADER_SIZE:
        return False
    with active.open("r+b") as file:
        file.truncate(rng.randrange(size))
    return True


def _stored_nonces(data: bytes) -> set[bytes]:
    header = form_of(data).header
    found: set[bytes] = set()
    at = HEADER_SIZE
    while header is not None and at < len(data):
        at += 64 + sum(LENGTHS.unpack_from(data, at))
        found.add(header.salt + data[at - NONCE_SIZE : at])
    return found


def main() -> None:
    """Run, print, and fail if a nonce was drawn twice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="borzoi-nonces-") as root:
        counted = count_nonces(Path(root), options.messages, options.seed)
    print(f"seed {options.seed}: {counted}")
    if counted.drawn != counted.different:
        raise SystemExit(f"{counted.drawn - counted.different} nonces were drawn twice")


if __name__ == "__main__":
    main()
