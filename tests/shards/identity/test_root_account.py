"""Who the first user is, and the file of a generated password."""

import os
import stat
from pathlib import Path

import pytest

from borzoi.shards.config import ConfigError
from borzoi.shards.identity.root_account import (
    GENERATED_LENGTH,
    ROOT_PASSWORD_FILE,
    RootAccount,
    decide_root,
    forget_root_password,
    random_password,
    store_root_password,
)


def decide(
    username: str | None = None,
    password: str | None = None,
    *,
    loopback: bool = True,
    defaults: bool = False,
) -> RootAccount:
    environ = {}
    if username is not None:
        environ["IGGY_ROOT_USERNAME"] = username
    if password is not None:
        environ["IGGY_ROOT_PASSWORD"] = password
    return decide_root(environ, loopback, lambda: "generated", with_default_credentials=defaults)


@pytest.mark.parametrize("loopback", [True, False])
def test_the_environment_decides(loopback: bool) -> None:
    root = decide("admin", "s3cret", loopback=loopback)
    assert root == RootAccount("admin", "s3cret", None, store_password_file=False)


def test_neither_on_a_private_machine_is_the_default_with_a_warning() -> None:
    root = decide()
    assert (root.username, root.password, root.store_password_file) == ("iggy", "iggy", False)
    assert root.warning is not None
    assert "iggy/iggy" in root.warning


def test_neither_on_a_reachable_machine_is_generated() -> None:
    assert decide(loopback=False) == RootAccount(
        "iggy", "generated", None, store_password_file=True
    )


@pytest.mark.parametrize(("username", "password"), [("admin", None), (None, "s3cret"), ("a", "")])
def test_one_alone_is_refused(username: str | None, password: str | None) -> None:
    with pytest.raises(ConfigError, match="needs both or neither") as raised:
        decide(username, password)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("username", "password"),
    [("u" * 3, "p" * 3), ("u" * 50, "p" * 100), ("é" * 25, "é" * 50)],
)
def test_lengths_at_the_bounds(username: str, password: str) -> None:
    assert decide(username, password).username == username


@pytest.mark.parametrize(
    ("username", "password", "said"),
    [
        ("uu", "ppp", "IGGY_ROOT_USERNAME has 2 bytes: needs 3 to 50"),
        ("u" * 51, "ppp", "IGGY_ROOT_USERNAME has 51 bytes"),
        ("é" * 26, "ppp", "IGGY_ROOT_USERNAME has 52 bytes"),
        ("uuu", "pp", "IGGY_ROOT_PASSWORD has 2 bytes: needs 3 to 100"),
        ("uuu", "p" * 101, "IGGY_ROOT_PASSWORD has 101 bytes"),
    ],
)
def test_lengths_beyond_the_bounds(username: str, password: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        decide(username, password)


def test_default_credentials_fill_what_is_open() -> None:
    assert decide(defaults=True, loopback=False).password == "iggy"
    root = decide("admin", defaults=True)
    assert (root.username, root.password) == ("admin", "iggy")
    root = decide(None, "s3cret", defaults=True)
    assert (root.username, root.password) == ("iggy", "s3cret")
    assert root.warning is not None


def test_default_credentials_are_ignored_when_both_are_set() -> None:
    root = decide("admin", "s3cret", defaults=True)
    assert (root.username, root.password) == ("admin", "s3cret")
    assert root.warning is not None
    assert "ignored" in root.warning


def test_passwords_are_not_shown_by_accident() -> None:
    assert "s3cret" not in repr(decide("admin", "s3cret"))


def test_random_passwords() -> None:
    made = {random_password() for _ in range(200)}
    assert len(made) == 200
    assert all(len(password) in GENERATED_LENGTH for password in made)
    assert all(password.isascii() and password.isalnum() for password in made)


def test_the_file_is_the_owners_alone(tmp_path: Path) -> None:
    old_umask = os.umask(0)
    try:
        path = store_root_password(tmp_path, "generated")
    finally:
        os.umask(old_umask)
    assert path.name == ROOT_PASSWORD_FILE
    assert path.read_text() == "generated\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    store_root_password(tmp_path, "again")
    assert [each.name for each in tmp_path.iterdir()] == [ROOT_PASSWORD_FILE]
    assert path.read_text() == "again\n"


def test_forgetting_the_file(tmp_path: Path) -> None:
    store_root_password(tmp_path, "generated")
    forget_root_password(tmp_path)
    forget_root_password(tmp_path)
    assert list(tmp_path.iterdir()) == []
