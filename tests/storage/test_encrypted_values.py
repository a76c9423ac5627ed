"""Single values: what was sealed opens, and nothing else does."""

import pytest

from borzoi.storage.encrypted_values import (
    VALUE_OVERHEAD,
    CannotOpenValue,
    open_value,
    seal_value,
)
from tests.storage.ciphers import KEY, OTHER_KEY


def test_a_value_opens_as_it_was() -> None:
    for value in (b"", b"x", bytes(100_000)):
        sealed = seal_value(KEY, b"test", value, b"bound")
        assert len(sealed) == len(value) + VALUE_OVERHEAD
        assert open_value([KEY], b"test", sealed, b"bound") == (value, KEY)


def test_the_same_value_is_never_sealed_alike() -> None:
    assert len({seal_value(KEY, b"test", b"x", b"") for _ in range(1000)}) == 1000


def test_only_the_same_key_purpose_and_surroundings_open_it() -> None:
    sealed = seal_value(KEY, b"test", b"value", b"bound")
    for arguments in (
        ([OTHER_KEY], b"test", sealed, b"bound"),
        ([KEY], b"other", sealed, b"bound"),
        ([KEY], b"test", sealed, b"bounds"),
    ):
        with pytest.raises(CannotOpenValue):
            open_value(*arguments)


def test_one_of_several_keys_opens_it_and_is_named() -> None:
    sealed = seal_value(KEY, b"test", b"value", b"bound")
    for keys in ([KEY, OTHER_KEY], [OTHER_KEY, KEY]):
        assert open_value(keys, b"test", sealed, b"bound") == (b"value", KEY)


def test_every_changed_byte_and_every_cut_is_noticed() -> None:
    sealed = seal_value(KEY, b"test", b"value", b"bound")
    for position in range(len(sealed)):
        bad = bytearray(sealed)
        bad[position] ^= 1
        with pytest.raises(CannotOpenValue):
            open_value([KEY], b"test", bytes(bad), b"bound")
        with pytest.raises(CannotOpenValue):
            open_value([KEY], b"test", sealed[:position], b"bound")
