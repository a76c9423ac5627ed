"""Keys and ciphers for tests, and an encrypted partition."""

import os
from pathlib import Path
from typing import Any

from borzoi.storage.encrypted import Encryption, PartitionCipher
from borzoi.storage.encryption_key import EncryptionKey
from tests.storage.partitions import BIRTH, Partition

KEY = EncryptionKey(bytes(range(32)))
OTHER_KEY = EncryptionKey(bytes(range(1, 33)))
NAMESPACE = 0x42


def partition_cipher(
    key: EncryptionKey = KEY,
    *,
    encrypts: bool = True,
    namespace: int = NAMESPACE,
    birth: int = BIRTH,
) -> PartitionCipher:
    return Encryption(key, encrypts=encrypts).partition(namespace, birth)


def exchanged() -> Encryption:
    """Both keys, where the other one encrypts by now."""
    return Encryption(OTHER_KEY, encrypts=True, old=[KEY])


def encrypted_partition(root: Path, **options: Any) -> Partition:
    return Partition(root, cipher=partition_cipher(), **options)


def random_payloads(count: int, size: int = 40) -> list[bytes]:
    return [os.urandom(size) for _ in range(count)]
