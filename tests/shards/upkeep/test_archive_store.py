"""Which archive the configuration means, and where its secrets come from."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from borzoi.shards.admin.archive_restore import CannotRestore, choose_state
from borzoi.shards.config import Config, render_toml
from borzoi.shards.directory.archive_place import archive_directory, lies_within_data
from borzoi.shards.upkeep.archive_store import open_store, read_credentials
from borzoi.shards.upkeep.archiver import BACKOFF_MAX_S, backoff_s
from borzoi.storage.archive.store import StoreFailed
from borzoi.storage.files import Files

SECRET = "wJalrXUtnFEMI"


def changed(table: Any, key: str, value: Any) -> Any:
    name, _, rest = key.partition(".")
    inner = changed(getattr(table, name), rest, value) if rest else value
    return msgspec.structs.replace(table, **{name: inner})


def with_path(data: Path, path: str) -> Config:
    config: Config = changed(Config(), "system.path", str(data))
    config = changed(config, "system.backup.path", path)
    return config


def test_the_archive_lies_below_the_data_unless_its_path_is_absolute(tmp_path: Path) -> None:
    inside = with_path(tmp_path / "data", "backup")
    assert archive_directory(inside) == str(tmp_path / "data" / "backup")
    assert lies_within_data(inside)
    outside = with_path(tmp_path / "data", str(tmp_path / "data-backup"))
    assert archive_directory(outside) == str(tmp_path / "data-backup")
    assert not lies_within_data(outside)
    assert open_store(outside, Files()).name == str(tmp_path / "data-backup")
    link = tmp_path / "link"
    (tmp_path / "data").mkdir()
    link.symlink_to(tmp_path / "data")
    assert lies_within_data(with_path(tmp_path / "data", str(link / "x")))


def test_credentials_of_a_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    file = tmp_path / "credentials"
    file.write_text(
        f"[default]\naws_access_key_id = A\naws_secret_access_key = {SECRET}%x\n"
        "[other]\naws_access_key_id = B\naws_secret_access_key = S\naws_session_token = T\n"
    )
    assert read_credentials(str(file)) == ("A", f"{SECRET}%x", "")
    monkeypatch.setenv("AWS_PROFILE", "other")
    assert read_credentials(str(file)) == ("B", "S", "T")


@pytest.mark.parametrize(
    "text",
    [
        f"aws_secret_access_key = {SECRET}",
        f"[default]\naws_secret_access_key = {SECRET}",
        f"[default]\n{SECRET}\n{SECRET}",
        f"[other]\naws_secret_access_key = {SECRET}",
        None,
    ],
)
def test_a_bad_credentials_file_is_not_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    file = tmp_path / "credentials"
    if text is not None:
        file.write_text(text)
    with pytest.raises(StoreFailed) as failed:
        read_credentials(str(file))
    assert SECRET not in str(failed.value)
    assert str(file) in str(failed.value)


def test_the_secret_is_masked_where_the_configuration_is_shown() -> None:
    config = changed(Config(), "data_maintenance.archiver.s3.key_secret", SECRET)
    assert SECRET not in render_toml(config)


def test_waiting_grows_up_to_a_bound() -> None:
    assert [backoff_s(failures) for failures in (1, 2, 3, 4)] == [1.0, 2.0, 4.0, 8.0]
    assert backoff_s(7) == backoff_s(10_000) == BACKOFF_MAX_S


def test_the_newest_state_that_is_not_too_new() -> None:
    assert choose_state([3, 9, 5], None) == 9
    assert choose_state([3, 9, 5], 8) == 5
    for entries, entry_max in (([], None), ([3], 2)):
        with pytest.raises(CannotRestore):
            choose_state(entries, entry_max)
