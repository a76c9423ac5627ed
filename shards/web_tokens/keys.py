"""The keys that sign and verify access tokens: of the configuration, or made once and kept.

Without a configured secret the first shard that looks makes a key and keeps it in the data
directory, readable by its owner alone; so tokens outlive a restart, and all shards have one key.
Archives leave the files out.

Always: a kept key is never replaced, so no shard holds one that another shard has removed. A secret
and an RSA key have a file each.
"""

import base64
import binascii
import logging
import os
import secrets
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import (
    RSAPrivateKey,
    RSAPublicKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from borzoi.shards.settings.errors import ConfigError
from borzoi.shards.settings.schema import Jwt
from borzoi.storage.layout import DataLayout

LOG: Final = logging.getLogger(__name__)

OWNER_ONLY: Final = 0o600
KEY_FILE_SIZE_MAX: Final = 64 * 1024
SECRET_SIZE: Final = 64
"""Bytes of a secret that is made here: as many as the longest of the HMACs has."""

RSA_EXPONENT: Final = 65537
RSA_SIZE: Final = 2048


class Keys(NamedTuple):
    """`signing` and `verifying` are one secret, or the two halves of an RSA key."""

    algorithm: str
    signing: Any
    verifying: Any


def open_keys(settings: Jwt, layout: DataLayout) -> Keys:
    """The keys of this configuration, or those that are kept in the data directory."""
    encoding = settings.encoding_secret or settings.decoding_secret
    decoding = settings.decoding_secret or settings.encoding_secret
    is_rsa = settings.algorithm.startswith("RS")
    if not encoding:
        if is_rsa:
            kept = _kept_key(layout.jwt_rsa_key, _new_rsa_key)
            return _rsa_keys(settings, kept, kept)
        kept = _kept_key(layout.jwt_key, lambda: secrets.token_bytes(SECRET_SIZE))
        return Keys(settings.algorithm, kept, kept)
    signing, verifying = (_secret(text, settings) for text in (encoding, decoding))
    if is_rsa:
        return _rsa_keys(settings, signing, verifying)
    if signing != verifying:
        LOG.warning(
            "http.jwt.encoding_secret and http.jwt.decoding_secret differ: no token that %s signs"
            " here can be verified here",
            settings.algorithm,
        )
    return Keys(settings.algorithm, signing, verifying)


def _secret(text: str, settings: Jwt) -> bytes:
    if not settings.use_base64_secret:
        return text.encode()
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ConfigError(
            "http.jwt.encoding_secret or http.jwt.decoding_secret is no base64, which"
            " http.jwt.use_base64_secret = true asks for"
        ) from None


def _rsa_keys(settings: Jwt, signing: bytes, verifying: bytes) -> Keys:
    """From PEM texts; a private key also verifies."""
    try:
        private = load_pem_private_key(signing, None)
        public: Any = private.public_key() if verifying == signing else _public(verifying)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(
            f"http.jwt.algorithm is {settings.algorithm}: http.jwt.encoding_secret needs an RSA"
            f" private key and http.jwt.decoding_secret its public key, both as PEM text: {error}"
        ) from None
    if not isinstance(private, RSAPrivateKey) or not isinstance(public, RSAPublicKey):
        raise ConfigError(f"http.jwt.algorithm is {settings.algorithm}: needs RSA keys")
    return Keys(settings.algorithm, private, public)


def _public(pem: bytes) -> Any:
    try:
        return load_pem_public_key(pem)
    except ValueError:
        return load_pem_private_key(pem, None).public_key()


def _kept_key(path: str, made_by: Callable[[], bytes]) -> bytes:
    kept = _read(path)
    if kept is not None:
        return kept
    _keep(path, made_by())
    # Another shard may have been faster, and its key counts.
    made = _read(path)
    assert made is not None, f"{path} was removed"
    return made


def _read(path: str) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return os.read(fd, KEY_FILE_SIZE_MAX) or None
    finally:
        os.close(fd)


def _keep(path: str, key: bytes) -> None:
    """Put a key under its name in one step, unless there is one. Durable when it returns."""
    temporary = f"{path}.{os.getpid()}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, OWNER_ONLY)
    try:
        os.write(fd, key)
        os.fsync(fd)
    finally:
        os.close(fd)
    try:
        os.link(temporary, path)
    except FileExistsError:
        LOG.debug("%s was made by another shard", path)
    finally:
        os.unlink(temporary)


def _new_rsa_key() -> bytes:
    made = generate_private_key(RSA_EXPONENT, RSA_SIZE)
    return made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
