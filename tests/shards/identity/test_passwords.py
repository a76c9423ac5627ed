"""Password hashes."""

import pytest

from borzoi.shards.identity.passwords import hash_password, verify_password


@pytest.fixture(scope="module")
def hashed() -> str:
    return hash_password("secret")


def test_parameters_and_text_form(hashed: str) -> None:
    assert hashed.startswith("$argon2id$v=19$m=19456,t=2,p=1$")


def test_right_and_wrong_passwords(hashed: str) -> None:
    assert verify_password(hashed, "secret")
    assert not verify_password(hashed, "Secret")
    assert not verify_password(hashed, "")


def test_salts_differ(hashed: str) -> None:
    assert hash_password("secret") != hashed


def test_damage_matches_nothing(hashed: str) -> None:
    damaged = [
        "",
        "secret",
        hashed[:-10],
        hashed[:40],
        hashed.replace("argon2id", "argon2xx"),
        hashed.replace("m=19456", "m=4294967295"),
        hashed.replace("t=2", "t=4294967295"),
        hashed.replace("t=2", "t=x"),
        hashed + "é",
        hashed[:-1] + ("a" if hashed[-1] != "a" else "b"),
    ]
    for text in damaged:
        assert not verify_password(text, "secret"), text


def test_a_password_that_is_no_unicode(hashed: str) -> None:
    assert not verify_password(hashed, "\ud800")
