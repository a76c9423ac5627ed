"""The key: how it is written, that it shows nowhere, and which directory it belongs to."""

import base64
from pathlib import Path

import pytest

from borzoi.storage.encryption_key import (
    EncryptionKey,
    InvalidKey,
    KeyRefused,
    compare_check,
    has_check,
    write_check,
)
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout
from tests.storage.ciphers import KEY, OTHER_KEY

FILES = Files()


def test_a_key_is_the_base64_of_32_bytes() -> None:
    text = base64.b64encode(bytes(range(32))).decode()
    assert EncryptionKey.from_text(text) == KEY
    assert EncryptionKey.from_text(f" {text}\n") == KEY
    for bad in ("", "hunter2", text[:-4], text + "AAAA", text.replace("A", "!"), "schlüssel"):
        with pytest.raises(InvalidKey) as raised:
            EncryptionKey.from_text(bad)
        assert not bad or bad not in str(raised.value)


def test_a_key_shows_itself_nowhere() -> None:
    assert "******" in repr(KEY)
    assert base64.b64encode(bytes(range(32))).decode() not in repr([KEY, {"key": KEY}])
    assert not hasattr(KEY, "__dict__")


def test_keys_differ() -> None:
    assert KEY != OTHER_KEY
    assert KEY.id != OTHER_KEY.id
    assert len({KEY, OTHER_KEY, EncryptionKey(bytes(range(32)))}) == 2
    assert KEY.derive(b"salt", b"one") != KEY.derive(b"salt", b"two")
    assert KEY.derive(b"salt", b"one") != KEY.derive(b"tlas", b"one")


def test_a_directory_knows_its_key(tmp_path: Path) -> None:
    layout = DataLayout(tmp_path)
    assert not has_check(layout, FILES)
    for keys in ([], [KEY], [OTHER_KEY]):
        assert compare_check(layout, FILES, keys) == []
    write_check(layout, FILES, [KEY])
    assert has_check(layout, FILES)
    assert compare_check(layout, FILES, [KEY]) == [KEY]
    assert compare_check(layout, FILES, [OTHER_KEY, KEY]) == [KEY]
    with pytest.raises(KeyRefused, match="not the one that"):
        compare_check(layout, FILES, [OTHER_KEY])
    with pytest.raises(KeyRefused, match="no key is configured"):
        compare_check(layout, FILES, [])


def test_a_directory_that_needs_two_keys_names_the_one_that_is_not_there(tmp_path: Path) -> None:
    layout = DataLayout(tmp_path)
    write_check(layout, FILES, [OTHER_KEY, KEY])
    assert compare_check(layout, FILES, [KEY, OTHER_KEY]) == [OTHER_KEY, KEY]
    for held, missing in ((KEY, OTHER_KEY), (OTHER_KEY, KEY)):
        with pytest.raises(KeyRefused, match=f"with the key {missing.id.hex()}, which is not"):
            compare_check(layout, FILES, [held])
    # With one key left the file is one that earlier versions read.
    write_check(layout, FILES, [OTHER_KEY])
    assert Path(layout.encryption_check_file).read_bytes().startswith(b"BZKEYCK1")
    assert compare_check(layout, FILES, [OTHER_KEY]) == [OTHER_KEY]


@pytest.mark.parametrize("keys", [[KEY], [OTHER_KEY, KEY]])
def test_a_damaged_check_is_not_taken_for_a_wrong_key(
    tmp_path: Path, keys: list[EncryptionKey]
) -> None:
    layout = DataLayout(tmp_path)
    write_check(layout, FILES, keys)
    path = Path(layout.encryption_check_file)
    good = path.read_bytes()
    for position in range(len(good)):
        bad = bytearray(good)
        bad[position] ^= 1
        path.write_bytes(bad)
        with pytest.raises(KeyRefused, match="is damaged"):
            compare_check(layout, FILES, keys)
        path.write_bytes(good[:position])
        with pytest.raises(KeyRefused, match="is damaged"):
            compare_check(layout, FILES, keys)
