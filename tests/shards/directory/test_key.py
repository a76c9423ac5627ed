"""At the start: which key counts, what contradicts itself, and what must not be opened."""

import base64
import logging
from pathlib import Path

import msgspec
import pytest

from borzoi.protocol.commands.streams import CreateStream
from borzoi.shards.directory.key import KEY_FILE_SIZE_MAX, configured_keys, open_encryption
from borzoi.shards.metadata_log.writer import open_writer
from borzoi.shards.settings.errors import ConfigError
from borzoi.shards.settings.schema import Compression, System
from borzoi.shards.settings.schema import Encryption as EncryptionConfig
from borzoi.storage.codecs import Codec
from borzoi.storage.encrypted import Encryption
from borzoi.storage.encryption_key import KeyRefused, has_check
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout
from tests.shards.decisions.commands import SETTINGS
from tests.storage.ciphers import KEY, OTHER_KEY
from tests.storage.partitions import BIRTH, Partition

TEXT = base64.b64encode(KEY.secret_bytes()).decode()
OTHER_TEXT = base64.b64encode(OTHER_KEY.secret_bytes()).decode()
FILES = Files()


def key_file(path: Path, data: bytes) -> str:
    file = path / "key"
    file.touch(0o600)
    file.write_bytes(data)
    return str(file)


def system(*, enabled: bool = True, key: str = TEXT, key_file: str = "") -> System:
    return System(encryption=EncryptionConfig(enabled=enabled, key=key, key_file=key_file))


def test_a_key_from_the_config_or_from_a_file(tmp_path: Path) -> None:
    assert configured_keys(EncryptionConfig()) == []
    assert configured_keys(EncryptionConfig(key=TEXT)) == [KEY]
    for data in (TEXT.encode(), f"{TEXT}\n".encode(), KEY.secret_bytes()):
        file = key_file(tmp_path, data)
        assert configured_keys(EncryptionConfig(key_file=file)) == [KEY]
        assert configured_keys(EncryptionConfig(key=TEXT, key_file=file)) == [KEY]


def test_keys_of_before_are_further_lines_or_a_setting_of_their_own(tmp_path: Path) -> None:
    file = key_file(tmp_path, f"# the second one is of 2026\n{OTHER_TEXT}\n\n{TEXT}\n".encode())
    assert configured_keys(EncryptionConfig(key_file=file)) == [OTHER_KEY, KEY]
    assert configured_keys(EncryptionConfig(key=OTHER_TEXT, key_file=file)) == [OTHER_KEY, KEY]
    both = f"{TEXT}, {OTHER_TEXT}"
    assert configured_keys(EncryptionConfig(key=OTHER_TEXT, old_keys=both)) == [OTHER_KEY, KEY]
    with pytest.raises(ConfigError, match="old_keys without"):
        configured_keys(EncryptionConfig(old_keys=TEXT))
    with pytest.raises(ConfigError, match=r"old_keys cannot be used") as raised:
        configured_keys(EncryptionConfig(key=TEXT, old_keys="hunter2"))
    assert "hunter2" not in str(raised.value)


def test_encryption_begins_beside_segments_in_clear(tmp_path: Path) -> None:
    Partition(tmp_path).append(b"in clear")
    begun = open_encryption(system(), DataLayout(tmp_path), FILES)
    assert begun is not None
    assert begun.encrypts


def test_a_key_is_exchanged_by_a_start_that_has_both(tmp_path: Path) -> None:
    layout = DataLayout(tmp_path)
    open_encryption(system(), layout, FILES)
    file = key_file(tmp_path, f"{OTHER_TEXT}\n{TEXT}\n".encode())
    exchanged = open_encryption(system(key="", key_file=file), layout, FILES)
    assert exchanged is not None
    assert (exchanged.key, exchanged.keys) == (OTHER_KEY, (OTHER_KEY, KEY))
    # From now on it needs both, whichever is the first one.
    for text in (TEXT, OTHER_TEXT):
        with pytest.raises(KeyRefused, match="still holds data that was encrypted with the key"):
            open_encryption(system(key=text), layout, FILES)
    off = open_encryption(system(enabled=False, key="", key_file=file), layout, FILES)
    assert off is not None
    assert off.key == OTHER_KEY


def test_encryption_that_is_off_exchanges_nothing(tmp_path: Path) -> None:
    layout = DataLayout(tmp_path)
    open_encryption(system(), layout, FILES)
    file = key_file(tmp_path, f"{OTHER_TEXT}\n{TEXT}\n".encode())
    off = open_encryption(system(enabled=False, key="", key_file=file), layout, FILES)
    assert off is not None
    assert off.key == KEY, "what is compressed stays with the key that the directory knows"
    assert open_encryption(system(), layout, FILES) is not None


def test_two_different_keys_are_a_contradiction(tmp_path: Path) -> None:
    file = key_file(tmp_path, OTHER_TEXT.encode())
    with pytest.raises(ConfigError, match="hold different keys") as raised:
        configured_keys(EncryptionConfig(key=TEXT, key_file=file))
    assert TEXT not in str(raised.value)
    assert OTHER_TEXT not in str(raised.value)


@pytest.mark.parametrize(
    "data", [b"", b"hunter2", b"\xff" * 31, b"\xff" * 33, b"A" * (KEY_FILE_SIZE_MAX + 1)]
)
def test_a_file_that_holds_no_key(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(ConfigError, match="cannot be used") as raised:
        configured_keys(EncryptionConfig(key_file=key_file(tmp_path, data)))
    assert "hunter2" not in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        configured_keys(EncryptionConfig(key_file=str(tmp_path / "absent")))
    with pytest.raises(ConfigError, match="Is a directory"):
        configured_keys(EncryptionConfig(key_file=str(tmp_path)))


def test_a_file_that_others_can_read_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = key_file(tmp_path, TEXT.encode())
    configured_keys(EncryptionConfig(key_file=file))
    assert caplog.records == []
    Path(file).chmod(0o640)
    configured_keys(EncryptionConfig(key_file=file))
    assert "others than its owner" in caplog.text
    assert TEXT not in caplog.text


def test_the_directory_is_tied_to_the_key_that_encrypts_first(tmp_path: Path) -> None:
    layout = DataLayout(tmp_path)
    assert open_encryption(system(enabled=False, key=""), layout, FILES) is None
    unused = open_encryption(system(enabled=False), layout, FILES)
    assert unused is not None
    assert not unused.encrypts
    assert not has_check(layout, FILES), "nothing was encrypted yet"
    used = open_encryption(system(), layout, FILES)
    assert used is not None
    assert used.encrypts
    for wrong in (system(key=OTHER_TEXT), system(enabled=False, key=OTHER_TEXT)):
        with pytest.raises(KeyRefused, match="not the one that"):
            open_encryption(wrong, layout, FILES)
    with pytest.raises(KeyRefused, match="no key is configured"):
        open_encryption(system(enabled=False, key=""), layout, FILES)
    again = open_encryption(system(enabled=False), layout, FILES)
    assert again is not None
    assert not again.encrypts


def test_a_lost_check_is_not_written_for_a_key_that_does_not_open_the_metadata(
    tmp_path: Path,
) -> None:
    layout = DataLayout(tmp_path)
    encryption = Encryption(KEY, encrypts=True)
    writer = open_writer(
        layout.state_log, layout.state_snapshot, FILES, SETTINGS, encryption=encryption
    )
    writer.append(writer.prepare(CreateStream("x"), user_id=0, timestamp=1))
    writer.close()
    with pytest.raises(KeyRefused, match="another key"):
        open_encryption(system(key=OTHER_TEXT), layout, FILES)
    assert not has_check(layout, FILES)
    open_encryption(system(), layout, FILES)
    assert has_check(layout, FILES)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_lost_check_is_not_written_for_a_key_that_does_not_open_the_segments(
    tmp_path: Path, codec: Codec
) -> None:
    """Encryption may be younger than all of the metadata."""
    cipher = Encryption(KEY, encrypts=True).partition(0, BIRTH)
    partition = Partition(tmp_path, cipher=cipher)
    partition.append(b"secret " * 1000)
    if codec is not Codec.NONE:
        partition.log.roll()
        partition.compress(codec)
        partition.log_file(1).unlink(missing_ok=True)
    partition.log.close()
    without_key = Partition(tmp_path)
    without_key.reopen()
    assert without_key.log.is_encrypted
    layout = DataLayout(tmp_path)
    with pytest.raises(KeyRefused, match="another key"):
        open_encryption(system(key=OTHER_TEXT), layout, FILES)
    assert not has_check(layout, FILES)
    open_encryption(system(), layout, FILES)
    assert has_check(layout, FILES)


def test_what_operators_should_know_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    layout = DataLayout(tmp_path)
    caplog.set_level(logging.WARNING)
    open_encryption(system(), layout, FILES)
    assert caplog.records == []
    both = msgspec.structs.replace(system(), compression=Compression(default_algorithm="zstd"))
    open_encryption(both, layout, FILES)
    # Encrypted segments are compressed as well: nothing to warn of.
    assert caplog.records == []
    open_encryption(system(enabled=False), layout, FILES)
    assert "switched off" in caplog.text
