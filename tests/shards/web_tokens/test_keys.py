"""Keys that are made once: one per kind, whichever shard is first."""

from pathlib import Path

from borzoi.shards.settings.schema import Jwt
from borzoi.shards.web_tokens.keys import open_keys
from borzoi.storage.layout import DataLayout


def test_a_key_outlives_a_change_of_the_algorithm(tmp_path: Path) -> None:
    layout = DataLayout(tmp_path)
    secret = open_keys(Jwt(algorithm="HS256"), layout)
    rsa = open_keys(Jwt(algorithm="RS256"), layout)
    assert open_keys(Jwt(algorithm="HS512"), layout).signing == secret.signing
    again = open_keys(Jwt(algorithm="RS256"), layout)
    assert again.signing.private_numbers() == rsa.signing.private_numbers()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jwt-key", "jwt-key.pem"]
