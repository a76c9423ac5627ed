"""Access tokens: what a broker accepts, what it refuses, and what a logout ends."""

import base64
import hashlib
import hmac
import json
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from tests.broker import HTTP, BrokerProcess, standing
from tests.conftest import NewBroker
from tests.http_client import HttpClient
from tests.shard_wires import TWO_SHARDS

SECRET = "a secret of the tests, long enough for every one of the HMACs, 64 bytes"
ISSUER = "iggy.apache.org"
TRIES = 24
"""Connections land on a shard at random: with so many both shards are asked."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {**TWO_SHARDS, **HTTP, "IGGY_HTTP_JWT_ENCODING_SECRET": SECRET}
    with standing(tmp_path_factory.mktemp("tokens") / "data", settings) as broker:
        yield broker


def claims(**changed: Any) -> dict[str, Any]:
    """Those of a token for root that is valid now; None leaves one out."""
    now = int(time.time())
    said = {
        "jti": "11111111-1111-4111-8111-111111111111",
        "iss": ISSUER,
        "aud": ISSUER,
        "sub": "0",
        "iat": now,
        "exp": now + 60,
        "nbf": now,
        **changed,
    }
    return {name: value for name, value in said.items() if value is not None}


def statuses(broker: BrokerProcess, token: str, tries: int = 1) -> set[int]:
    client = HttpClient(broker, token)
    return {client.ask("GET", "/streams").status for _ in range(tries)}


def forged(said: dict[str, Any], head: dict[str, Any], key: bytes = b"") -> str:
    """A token made by hand: libraries refuse to make some of these."""

    def part(value: dict[str, Any]) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    text = part(head) + b"." + part(said)
    signature = hmac.new(key, text, hashlib.sha256).digest() if key else b""
    return (text + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


@pytest.mark.slow
def test_a_token_of_another_issuer_with_our_secret_is_accepted(broker: BrokerProcess) -> None:
    for audience in (ISSUER, ["other", ISSUER]):
        token = jwt.encode(claims(aud=audience), SECRET, "HS256")
        assert statuses(broker, token) == {200}


NOW = int(time.time())
ATTACKS = {
    "expired": claims(iat=NOW - 100, nbf=NOW - 100, exp=NOW - 60),
    "not yet valid": claims(nbf=NOW + 10_000, exp=NOW + 20_000),
    "issued in the future": claims(iat=NOW + 10_000, exp=NOW + 20_000),
    "wrong issuer": claims(iss="evil.example"),
    "wrong audience": claims(aud="evil.example"),
    "user that is no number": claims(sub="root"),
    "user that is negative": claims(sub="-1"),
    "endless": claims(exp=2**63),
    **{f"without {name}": claims(**{name: None}) for name in claims()},
}


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_claims_that_are_refused(broker: BrokerProcess, attack: str) -> None:
    answer = HttpClient(broker, jwt.encode(ATTACKS[attack], SECRET, "HS256")).ask("GET", "/streams")
    assert (answer.status, answer.body) == (401, b"")


@pytest.mark.slow
@pytest.mark.parametrize(
    "token",
    [
        "",
        "nonsense",
        "a.b.c",
        "x" * 5000,
        forged(claims(), {"alg": "none", "typ": "JWT"}),
        forged(claims(), {"alg": "None", "typ": "JWT"}),
        forged(claims(), {"typ": "JWT"}, SECRET.encode()),
        forged(claims(), {"alg": "HS256", "typ": "JWT"}),
        forged(claims(), {"alg": "HS256", "typ": "JWT"}, b"another secret"),
        jwt.encode(claims(), SECRET, "HS384"),
        jwt.encode(claims(), SECRET, "HS512"),
        jwt.encode(claims(), SECRET, "HS256")[:-2],
    ],
    ids=range(12),
)
def test_tokens_that_are_refused(broker: BrokerProcess, token: str) -> None:
    assert statuses(broker, token) == {401}


@pytest.mark.slow
def test_a_token_needs_the_word_bearer(broker: BrokerProcess) -> None:
    token = jwt.encode(claims(), SECRET, "HS256")
    for header in (token, f"Basic {token}", f"bearer {token}", "Bearer"):
        answer = HttpClient(broker).ask("GET", "/streams", headers={"Authorization": header})
        assert (answer.status, answer.body) == (401, b""), header


@pytest.mark.slow
def test_without_a_token_nothing_is_said_of_paths(broker: BrokerProcess) -> None:
    client = HttpClient(broker)
    for method, path in (("GET", "/nothing"), ("PATCH", "/streams"), ("GET", "/streams/1")):
        answer = client.ask(method, path)
        assert (answer.status, answer.body) == (401, b"")


@pytest.mark.slow
def test_a_logout_holds_on_every_shard_at_once(broker: BrokerProcess) -> None:
    client = HttpClient(broker).login()
    other = HttpClient(broker).login()
    assert statuses(broker, client.token, TRIES) == {200}
    assert client.ask("DELETE", "/users/logout").status == 204
    assert statuses(broker, client.token, TRIES) == {401}
    assert statuses(broker, other.token, TRIES) == {200}


@pytest.mark.slow
def test_a_token_is_refreshed_once(broker: BrokerProcess) -> None:
    client = HttpClient(broker).login()
    answer = client.ask("POST", "/users/refresh-token", {"token": client.token})
    assert answer.status == 200
    later = answer.json["access_token"]["token"]
    assert statuses(broker, later, TRIES) == {200}
    assert statuses(broker, client.token, TRIES) == {401}
    again = HttpClient(broker).ask("POST", "/users/refresh-token", {"token": client.token})
    assert (again.status, again.json["code"]) == (401, "invalid_access_token")


@pytest.mark.slow
def test_a_personal_access_token_logs_in(broker: BrokerProcess) -> None:
    root = HttpClient(broker).login()
    token = root.ask("POST", "/personal-access-tokens", {"name": "login", "expiry": 0}).json
    answer = HttpClient(broker).ask("POST", "/personal-access-tokens/login", token)
    assert answer.status == 200
    assert answer.json["user_id"] == 0
    assert statuses(broker, answer.json["access_token"]["token"]) == {200}
    assert root.ask("DELETE", "/personal-access-tokens/login").status == 204


@pytest.mark.slow
def test_tokens_follow_their_user(broker: BrokerProcess) -> None:
    root = HttpClient(broker).login()
    new = {"username": "ann", "password": "secret", "permissions": None}
    first = root.ask("POST", "/users", new).json["id"]
    ann = HttpClient(broker).login("ann", "secret")
    assert statuses(broker, ann.token, TRIES) == {403}
    assert ann.ask("GET", f"/users/{first}").status == 200
    assert root.ask("PUT", "/users/ann", {"status": "inactive"}).status == 204
    assert statuses(broker, ann.token, TRIES) == {401}
    assert root.ask("PUT", "/users/ann", {"status": "active"}).status == 204
    assert root.ask("DELETE", "/users/ann").status == 204
    # The next user has the same id, and is another one.
    assert root.ask("POST", "/users", {**new, "username": "bob"}).json["id"] == first
    for _ in range(TRIES):
        assert ann.ask("GET", f"/users/{first}").status == 403
    assert root.ask("DELETE", "/users/bob").status == 204


@pytest.mark.slow
def test_a_key_is_kept_and_so_are_logouts(new_broker: NewBroker) -> None:
    broker = new_broker(**TWO_SHARDS, **HTTP)
    kept, ended = HttpClient(broker).login(), HttpClient(broker).login()
    assert ended.ask("DELETE", "/users/logout").status == 204
    key = broker.data / "jwt-key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    for end in (broker.kill, broker.stop):
        end()
        broker.start()
        assert statuses(broker, kept.token, TRIES) == {200}
        assert statuses(broker, ended.token, TRIES) == {401}
    broker.stop()
    (broker.data / "revoked-tokens").write_bytes(b"damaged")
    broker.start()
    assert statuses(broker, kept.token, TRIES) == {401}
    assert "revoked-tokens is damaged" in broker.output()
    assert statuses(broker, HttpClient(broker).login().token, TRIES) <= {200, 401}


def pem(key: RSAPrivateKey) -> tuple[str, bytes]:
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return private.decode(), public


@pytest.mark.slow
def test_rsa_keys_and_key_confusion(new_broker: NewBroker) -> None:
    private, public = pem(generate_private_key(65537, 2048))
    broker = new_broker(
        **HTTP,
        IGGY_HTTP_JWT_ALGORITHM="RS256",
        IGGY_HTTP_JWT_ENCODING_SECRET=private,
        IGGY_HTTP_JWT_DECODING_SECRET=public.decode(),
    )
    own = HttpClient(broker).login()
    assert statuses(broker, own.token) == {200}
    assert statuses(broker, jwt.encode(claims(), private, "RS256")) == {200}
    # The public key is no secret: as one of an HMAC it proves nothing.
    for head in ({"alg": "HS256"}, {"alg": "RS256"}):
        assert statuses(broker, forged(claims(), head, public)) == {401}
    another, _ = pem(generate_private_key(65537, 2048))
    assert statuses(broker, jwt.encode(claims(), another, "RS256")) == {401}


@pytest.mark.slow
def test_an_rsa_key_that_was_made_here(new_broker: NewBroker) -> None:
    broker = new_broker(**TWO_SHARDS, **HTTP, IGGY_HTTP_JWT_ALGORITHM="RS512")
    token = HttpClient(broker).login().token
    assert jwt.get_unverified_header(token)["alg"] == "RS512"
    assert statuses(broker, token, TRIES) == {200}


@pytest.mark.slow
def test_a_secret_in_base64(new_broker: NewBroker) -> None:
    secret = bytes(range(64))
    broker = new_broker(
        **HTTP,
        IGGY_HTTP_JWT_ALGORITHM="HS512",
        IGGY_HTTP_JWT_USE_BASE64_SECRET="true",
        IGGY_HTTP_JWT_DECODING_SECRET=base64.b64encode(secret).decode(),
    )
    assert statuses(broker, jwt.encode(claims(), secret, "HS512")) == {200}
    files: list[Path] = [path for path in broker.data.rglob("*") if path.is_file()]
    assert not any(base64.b64encode(secret) in path.read_bytes() for path in files)
