"""The certificate of a door with its key: read from PEM files and judged, or made by the broker.

Read by the supervisor, at the start and when it is asked to renew. Always: a Certificate can be
served, since a context was made of it before it was handed out.
"""

import logging
import os
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

import msgspec

from borzoi.protocol.tls_records import TlsFailure
from borzoi.shards.settings.addresses import parse_address
from borzoi.shards.settings.errors import ConfigError
from borzoi.shards.settings.open_doors import open_doors
from borzoi.shards.settings.schema import Config, HttpTls, QuicCertificate, Tls
from borzoi.shards.tls.context import ServerContext

LOG: Final = logging.getLogger(__name__)

QUIC: Final = "quic"
Table: TypeAlias = Tls | HttpTls | QuicCertificate
"""The table of the configuration that says which certificate a door shows."""

FILE_SIZE_MAX: Final = 64 * 1024
"""A longer PEM file is refused: certificates travel to the workers in one specification."""

EXPIRES_SOON: Final = timedelta(days=14)

CERTIFICATE_MARK: Final = b"-----BEGIN CERTIFICATE-----"
KEY_MARK: Final = b"PRIVATE KEY-----"
ENCRYPTED_MARKS: Final = (b"BEGIN ENCRYPTED PRIVATE KEY", b"Proc-Type: 4,ENCRYPTED")


class Certificate(msgspec.Struct, frozen=True):
    """What a door shows, and whom it lets in. `self_signed`: made by the broker itself."""

    chain: bytes
    key: bytes
    client_ca: bytes = b""
    client_auth: str = "none"
    self_signed: bool = False


def read_certificates(config: Config) -> dict[str, Certificate]:
    """The certificates of all doors that are open and encrypted, by door; ConfigError if one fails.

    Files are read by this; where there are none and a door may sign for itself, it gets one.
    """
    found: dict[str, Certificate] = {}
    for door, address in open_doors(config).items():
        host = parse_address(address).host
        table: Tls | HttpTls | None = getattr(getattr(config, door), "tls", None)
        if door == QUIC:
            # There is no QUIC in clear text, and its own table says so by having no `enabled`.
            found[door] = _of_door("quic.certificate", config.quic.certificate, host)
        elif table is not None and table.enabled:
            found[door] = _of_door(f"{door}.tls", table, host)
    return found


def renewed_certificates(config: Config, used: dict[str, Certificate]) -> dict[str, Certificate]:
    """The same, for doors that are in use: one that was made by the broker stays."""
    found = read_certificates(config)
    return {
        door: used[door] if one.self_signed and used[door].self_signed else one
        for door, one in found.items()
    }


def _signs_itself(table: Table) -> bool:
    """Whether the broker makes the certificate. QUIC's is made whenever it is asked for."""
    if isinstance(table, QuicCertificate):
        return table.self_signed
    return isinstance(table, Tls) and table.self_signed and not os.path.exists(table.cert_file)


def _of_door(setting: str, table: Table, host: str) -> Certificate:
    client_ca, client_auth = b"", "none"
    # Clients show none over QUIC.
    if not isinstance(table, QuicCertificate) and table.client_auth != "none":
        client_auth = table.client_auth
        client_ca = _read(f"{setting}.client_ca_file", table.client_ca_file)
        if CERTIFICATE_MARK not in client_ca:
            raise ConfigError(
                f"{setting}.client_ca_file is {table.client_ca_file}, which holds no certificate:"
                " needs the PEM file of the authority that signs those of clients"
            )
    if _signs_itself(table):
        # Slow to import, and wanted here alone.
        from borzoi.shards.tls.self_signed import sign_for

        chain, key = sign_for(host)
        found = Certificate(chain, key, client_ca, client_auth, self_signed=True)
    else:
        chain = _read(f"{setting}.cert_file", table.cert_file)
        key = _read(f"{setting}.key_file", table.key_file)
        _check_texts(setting, table, chain, key)
        found = Certificate(chain, key, client_ca, client_auth)
    try:
        ServerContext(found)
    except TlsFailure as error:
        raise ConfigError(_sentence(setting, table, error)) from error
    return found


def _read(setting: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(FILE_SIZE_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{setting} is {path!r}: {error.strerror}; needs a PEM file") from error
    if len(content) > FILE_SIZE_MAX:
        raise ConfigError(f"{setting} is {path}, which is longer than {FILE_SIZE_MAX} bytes")
    return content


def _check_texts(setting: str, table: Table, chain: bytes, key: bytes) -> None:
    if CERTIFICATE_MARK not in chain:
        raise ConfigError(
            f"{setting}.cert_file is {table.cert_file}, which holds no certificate: needs PEM"
        )
    if any(mark in key for mark in ENCRYPTED_MARKS):
        raise ConfigError(
            f"{setting}.key_file is {table.key_file}, which is encrypted: needs a key without a"
            " passphrase"
        )
    if KEY_MARK not in key:
        raise ConfigError(
            f"{setting}.key_file is {table.key_file}, which holds no private key: needs PEM, with"
            " PKCS#1, PKCS#8 or SEC1 in it"
        )


def _sentence(setting: str, table: Table, error: TlsFailure) -> str:
    if error.reason == "key values mismatch":
        return (
            f"{setting}.key_file is {table.key_file}, which is not the key of the certificate in"
            f" {table.cert_file}"
        )
    return f"{setting} cannot be used with {table.cert_file} and {table.key_file}: {error.reason}"


def describe(door: str, certificate: Certificate) -> None:
    """Log what a door shows; one that has expired, or is about to, is a warning."""
    # Slow to import, and needed only where a door is encrypted.
    from cryptography.x509 import load_pem_x509_certificates

    first = load_pem_x509_certificates(certificate.chain)[0]
    until = first.not_valid_after_utc
    LOG.info(
        "TLS of %s: %scertificate of %s until %s",
        door,
        "a self-signed " if certificate.self_signed else "",
        first.subject.rfc4514_string() or "no name",
        until.date(),
    )
    now = datetime.now(UTC)
    if until < now:
        LOG.warning("the certificate of %s has expired: clients that verify it stay away", door)
    elif until < now + EXPIRES_SOON:
        LOG.warning("the certificate of %s expires at %s: renew it and send SIGHUP", door, until)
