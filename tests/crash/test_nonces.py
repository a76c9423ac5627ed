"""The short version of the count: no nonce is drawn twice."""

from pathlib import Path

import pytest

from borzoi.storage import encrypted
from tests.crash.nonces import BATCH_SIZE, count_nonces
from tests.storage.ciphers import partition_cipher
from tests.storage.partitions import new_batch


@pytest.mark.slow
def test_no_nonce_is_drawn_twice(tmp_path: Path) -> None:
    counted = count_nonces(tmp_path, 50_000, seed=20)
    assert counted.messages >= 50_000
    # One for each seal, and a batch has at least one.
    assert counted.drawn == counted.different >= 50_000 // BATCH_SIZE
    assert min(counted.opened, counted.torn, counted.failed, counted.purged) > 0
    assert counted.exchanged > 10


def test_a_counter_that_runs_over_draws_new_random_bits() -> None:
    cipher = partition_cipher().begin(0)
    nonces: list[bytes] = []
    for _ in range(4):
        # Two are left: the next ones have other random bits, and the count begins again.
        cipher._nonce_prefix = bytes(8)
        cipher._nonce_count = encrypted.NONCES_MAX - 2
        drawn = [cipher._nonce() for _ in range(8)]
        assert cipher._nonce_count == 6
        assert [nonce[:8] == bytes(8) for nonce in drawn] == [True] * 2 + [False] * 6
        nonces += drawn[2:]
    assert len(set(nonces)) == 24
    assert len({nonce[:8] for nonce in nonces}) == 4


def test_a_segment_taken_again_draws_other_nonces() -> None:
    begun = partition_cipher().begin(0)
    taken = [partition_cipher().resume(0, begun.header) for _ in range(100)]
    nonces = [cipher._nonce() for cipher in (begun, *taken) for _ in range(100)]
    assert len(set(nonces)) == 101 * 100


def test_the_same_batch_is_never_encrypted_alike() -> None:
    cipher = partition_cipher().begin(0)
    batch = new_batch([b"x"])
    found = {bytes(cipher.encrypt(batch, 1)) for _ in range(100)}
    assert len(found) == 100
