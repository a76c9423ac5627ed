"""`borzoi reset-root` without a broker: where the password comes from, and what it leaves alone."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from borzoi.protocol.commands.users import UpdateUser
from borzoi.protocol.permissions import ALL_PERMISSIONS, UserStatus
from borzoi.shards.admin import reset_root
from borzoi.shards.admin.commands import main
from borzoi.shards.changes.bootstrap import ensure_root
from borzoi.shards.decisions.decide import MetadataSettings
from borzoi.shards.directory.lock import lock_data_directory
from borzoi.shards.identity.passwords import hash_password, verify_password
from borzoi.shards.identity.root_account import ROOT_PASSWORD_FILE, store_root_password
from borzoi.shards.metadata.state import User
from borzoi.shards.metadata_log.writer import MetadataWriter, open_writer
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a broker that has run once, and whose root user was switched off."""
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data"
    data.mkdir()
    writer = opened(data)
    ensure_root(writer, "boss", hash_password("old password"), 1000)
    update = UpdateUser(0, status=UserStatus.INACTIVE)
    writer.append(writer.prepare(update, user_id=0, timestamp=2000))
    writer.sync()
    writer.applied()
    writer.close()
    store_root_password(data, "old password")
    return data


def opened(data: Path) -> MetadataWriter:
    layout = DataLayout(data)
    return open_writer(layout.state_log, layout.state_snapshot, Files(), MetadataSettings(1000))


def root_of(data: Path) -> User:
    writer = opened(data)
    writer.close()
    return writer.state.users[0]


def run(data: Path, *arguments: str, stdin: str = "", **variables: str) -> Result:
    environment = {name: None for name in os.environ if name.startswith("IGGY_")}
    return CliRunner().invoke(
        main,
        ["reset-root", *arguments],
        input=stdin,
        env={**environment, "IGGY_SYSTEM_PATH": str(data), **variables},
    )


@pytest.mark.parametrize("line", ["new password\n", "new password", "new password\nmore\n"])
def test_from_standard_input(data: Path, line: str) -> None:
    done = run(data, stdin=line)
    assert done.exit_code == 0, done.output
    assert "the root user 'boss' has a new password" in done.stderr
    assert "new password\n" not in done.output.replace("has a new password\n", "")
    root = root_of(data)
    assert verify_password(root.password_hash, "new password")
    assert (root.username, root.status) == ("boss", UserStatus.ACTIVE)
    assert root.permissions == ALL_PERMISSIONS
    assert not (data / ROOT_PASSWORD_FILE).exists()


def test_from_the_environment(data: Path) -> None:
    done = run(data, stdin="not this one\n", IGGY_ROOT_PASSWORD="of the variable")
    assert done.exit_code == 0, done.output
    assert "taking the new password from IGGY_ROOT_PASSWORD" in done.stderr
    assert "of the variable" not in done.output
    assert verify_password(root_of(data).password_hash, "of the variable")


def test_made_up(data: Path) -> None:
    done = run(data, "--generate", IGGY_ROOT_PASSWORD="not this one")
    assert done.exit_code == 0, done.output
    prefix, _, password = done.stdout.strip().rpartition(" ")
    assert prefix == "Generated root user password:"
    assert verify_password(root_of(data).password_hash, password)


@pytest.mark.parametrize("password", ["", "ab", "a" * 101])
def test_one_that_cannot_be_a_password(data: Path, password: str) -> None:
    before = (data / "state.messages").read_bytes()
    done = run(data, stdin=f"{password}\n")
    assert done.exit_code == 1
    assert f"the new password has {len(password)} bytes: needs 3 to 100" in done.stderr
    assert (data / "state.messages").read_bytes() == before
    assert (data / ROOT_PASSWORD_FILE).exists()


def test_while_the_directory_is_in_use(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        reset_root, "lock_data_directory", lambda data: lock_data_directory(data, 0.0)
    )
    before = (data / "state.messages").read_bytes()
    lock = lock_data_directory(data)
    try:
        done = run(data, "--generate")
    finally:
        os.close(lock)
    assert done.exit_code == 1
    assert "another broker uses it" in done.stderr
    assert done.stdout == ""
    assert (data / "state.messages").read_bytes() == before
    # And afterwards it goes.
    assert run(data, "--generate").exit_code == 0


def test_a_directory_without_a_broker(tmp_path: Path) -> None:
    done = run(tmp_path / "nothing", "--generate")
    assert done.exit_code == 1
    assert "there is no metadata log" in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "nothing").exists()


def test_where_the_metadata_is_encrypted_the_key_is_needed(data: Path) -> None:
    key = "c2VjcmV0" * 5 + "c2U="
    on = {"IGGY_SYSTEM_ENCRYPTION_ENABLED": "true", "IGGY_SYSTEM_ENCRYPTION_KEY": key}
    assert run(data, stdin="secret password", **on).exit_code == 0
    done = run(data, stdin="other password")
    assert done.exit_code == 1
    assert "no key is configured" in done.stderr
    done = run(data, stdin="other password", IGGY_SYSTEM_ENCRYPTION_KEY="A" * 43 + "=")
    assert done.exit_code == 1
    assert "is not the one that" in done.stderr
    assert run(data, stdin="last password", IGGY_SYSTEM_ENCRYPTION_KEY=key).exit_code == 0
