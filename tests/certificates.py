"""An authority of our own, and certificates that it signs, as PEM files in a directory."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

Key: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
Kind: TypeAlias = Literal["ecdsa", "rsa"]

DAY: Final = timedelta(days=1)
SIGNS: Final = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)
FORMATS: Final = {
    "traditional": serialization.PrivateFormat.TraditionalOpenSSL,
    "pkcs8": serialization.PrivateFormat.PKCS8,
}


class Files(NamedTuple):
    """Where a certificate and its key lie."""

    cert: Path
    key: Path


def new_key(kind: Kind = "ecdsa") -> Key:
    if kind == "rsa":
        return rsa.generate_private_key(public_exponent=65_537, key_size=2048)
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: Key, form: str = "pkcs8", passphrase: bytes = b"") -> bytes:
    """The key as PEM: PKCS#8, or what its kind had before (PKCS#1, SEC1)."""
    hidden = (
        serialization.BestAvailableEncryption(passphrase)
        if passphrase
        else serialization.NoEncryption()
    )
    return key.private_bytes(serialization.Encoding.PEM, FORMATS[form], hidden)


class Authority:
    """Signs. Its own certificate is `pem`."""

    def __init__(self, name: str = "an authority") -> None:
        self._key = new_key()
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.pem = self._signed(self._name, self._key, is_authority=True)

    def issue(
        self,
        folder: Path,
        name: str = "server",
        *,
        kind: Kind = "ecdsa",
        form: str = "pkcs8",
        valid_for: timedelta = DAY,
    ) -> Files:
        """A certificate for localhost and 127.0.0.1, and its key, as files of that name."""
        key = new_key(kind)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        files = Files(folder / f"{name}.pem", folder / f"{name}.key")
        files.cert.write_bytes(self._signed(subject, key, valid_for=valid_for))
        files.key.write_bytes(key_pem(key, form))
        return files

    def write(self, folder: Path) -> Path:
        """Its own certificate as a file, for those who are to trust it."""
        path = folder / "authority.pem"
        path.write_bytes(self.pem)
        return path

    def _signed(
        self,
        subject: x509.Name,
        key: Key,
        *,
        is_authority: bool = False,
        valid_for: timedelta = DAY,
    ) -> bytes:
        now, signing = datetime.now(UTC), self._key.public_key()
        names = x509.SubjectAlternativeName(
            [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        )
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 2 * DAY)
            .not_valid_after(now + valid_for)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(names, critical=False)
            # Python 3.13 and newer verify strictly: by these two, and an authority by its usage.
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing), False)
        )
        if is_authority:
            builder = builder.add_extension(SIGNS, critical=True)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
