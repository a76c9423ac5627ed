"""Certificates of doors: which files are served, what is refused and how that is said."""

import logging
import ssl
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from borzoi.protocol.tls_records import TlsFailure
from borzoi.shards.settings.errors import ConfigError
from borzoi.shards.settings.schema import Config, Quic, QuicCertificate, Tcp, Tls
from borzoi.shards.tls.certificate import (
    FILE_SIZE_MAX,
    Certificate,
    describe,
    read_certificates,
    renewed_certificates,
)
from borzoi.shards.tls.context import ServerContext
from tests.certificates import Authority, Files, Kind, key_pem, new_key

AUTHORITY = Authority()
NO_QUIC = Quic(enabled=False)


def tls(files: Files, **more: Any) -> Config:
    values = {"enabled": True, "cert_file": str(files.cert), "key_file": str(files.key), **more}
    return Config(tcp=Tcp(tls=Tls(**values)), quic=NO_QUIC)


def shaken(server: ServerContext, client: ssl.SSLContext, name: str = "localhost") -> ssl.SSLObject:
    """The client's end of a handshake without a network."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(to_client, to_server, server_hostname=name)
    there = server.records()
    for _ in range(10):
        is_done = True
        try:
            here.do_handshake()
        except ssl.SSLWantReadError:
            is_done = False
        there.receive(memoryview(to_server.read()))
        if there.shake() and is_done:
            return here
        to_client.write(there.unsent())
    raise AssertionError("the handshake does not end")


def trusting(pem: bytes) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=pem.decode())


@pytest.mark.parametrize("form", ["traditional", "pkcs8"])
@pytest.mark.parametrize("kind", ["ecdsa", "rsa"])
def test_files_that_are_served(tmp_path: Path, kind: Kind, form: str) -> None:
    config = tls(AUTHORITY.issue(tmp_path, kind=kind, form=form))
    context = ServerContext(read_certificates(config)["tcp"])
    for name in ("localhost", "127.0.0.1"):
        assert shaken(context, trusting(AUTHORITY.pem), name).version() == "TLSv1.3"


def test_old_versions_are_not_spoken(tmp_path: Path) -> None:
    context = ServerContext(read_certificates(tls(AUTHORITY.issue(tmp_path)))["tcp"])
    client = trusting(AUTHORITY.pem)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    assert shaken(context, client).version() == "TLSv1.2"
    older = trusting(AUTHORITY.pem)
    older.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.deprecated_call():
        older.minimum_version = older.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(TlsFailure, match="unsupported protocol"):
        shaken(context, older)


def test_doors_without_tls_have_none(tmp_path: Path) -> None:
    assert read_certificates(Config(quic=NO_QUIC)) == {}
    missing = Files(tmp_path / "none.pem", tmp_path / "none.key")
    off = tls(missing, self_signed=False, enabled=False)
    assert read_certificates(off) == {}


def quic(files: Files, *, self_signed: bool) -> Config:
    own = {"cert_file": str(files.cert), "key_file": str(files.key)}
    return Config(quic=Quic(certificate=QuicCertificate(self_signed=self_signed, **own)))


def test_quic_is_never_without_one(tmp_path: Path) -> None:
    made = read_certificates(Config())["quic"]
    assert made.self_signed
    shaken(ServerContext(made), trusting(made.chain))
    files = AUTHORITY.issue(tmp_path)
    assert read_certificates(quic(files, self_signed=True))["quic"].self_signed
    read = read_certificates(quic(files, self_signed=False))["quic"]
    assert (read.chain, read.key) == (files.cert.read_bytes(), files.key.read_bytes())


def test_quic_without_a_file_names_the_setting(tmp_path: Path) -> None:
    missing = Files(tmp_path / "none.pem", tmp_path / "none.key")
    with pytest.raises(ConfigError, match=r"quic\.certificate\.cert_file is '.*none.pem'"):
        read_certificates(quic(missing, self_signed=False))


def test_one_that_the_broker_makes_itself(tmp_path: Path) -> None:
    config = tls(Files(tmp_path / "none.pem", tmp_path / "none.key"))
    made = read_certificates(config)["tcp"]
    assert made.self_signed
    # A client that is given it trusts it, and only then.
    for name in ("localhost", "127.0.0.1", "::1"):
        assert shaken(ServerContext(made), trusting(made.chain), name).getpeercert()
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(ServerContext(made), trusting(AUTHORITY.pem))
    # It lasts as long as the broker, unless there are files meanwhile.
    assert renewed_certificates(config, {"tcp": made}) == {"tcp": made}
    AUTHORITY.issue(tmp_path, "none")
    renewed = renewed_certificates(config, {"tcp": made})["tcp"]
    assert not renewed.self_signed


def damaged(pem: bytes) -> bytes:
    head, _, body = pem.partition(b"\n")
    return head + b"\n" + body.replace(b"A", b"B", 20)


@pytest.mark.parametrize(
    ("cert", "key", "sentence"),
    [
        ("missing", "server.key", r"tcp\.tls\.cert_file is '.*missing': No such .*needs a PEM"),
        ("server.pem", "missing", r"tcp\.tls\.key_file is '.*missing': No such file"),
        ("server.key", "server.key", r"cert_file is .* holds no certificate: needs PEM"),
        ("server.pem", "server.pem", r"key_file is .* holds no private key: needs PEM"),
        ("server.pem", "other.key", r"key_file is .*other.key, which is not the key of the cert"),
        ("server.pem", "encrypted", r"key_file is .* is encrypted: needs a key without a passphr"),
        ("damaged", "server.key", r"tcp\.tls cannot be used with .*damaged and .*server.key: "),
        ("long", "server.key", r"cert_file is .* longer than 65536 bytes"),
    ],
)  # fmt: skip
def test_what_cannot_be_served_stops_the_start(
    tmp_path: Path, cert: str, key: str, sentence: str
) -> None:
    pem = AUTHORITY.issue(tmp_path).cert.read_bytes()
    AUTHORITY.issue(tmp_path, "other")
    (tmp_path / "encrypted").write_bytes(key_pem(new_key(), passphrase=b"secret"))
    (tmp_path / "damaged").write_bytes(damaged(pem))
    (tmp_path / "long").write_bytes(pem + b"\n" * FILE_SIZE_MAX)
    with pytest.raises(ConfigError, match=sentence):
        read_certificates(tls(Files(tmp_path / cert, tmp_path / key), self_signed=False))


@pytest.mark.parametrize(
    ("authority", "sentence"),
    [
        ("missing", r"tcp\.tls\.client_ca_file is '.*missing': No such file"),
        ("server.key", r"client_ca_file is .* holds no certificate"),
    ],
)
def test_an_authority_of_clients_that_is_none(
    tmp_path: Path, authority: str, sentence: str
) -> None:
    files = AUTHORITY.issue(tmp_path)
    where = str(tmp_path / authority)
    with pytest.raises(ConfigError, match=sentence):
        read_certificates(tls(files, client_auth="required", client_ca_file=where))


@pytest.mark.parametrize("auth", ["optional", "required"])
def test_certificates_of_clients(tmp_path: Path, auth: str) -> None:
    config = tls(
        AUTHORITY.issue(tmp_path),
        client_auth=auth,
        client_ca_file=str(AUTHORITY.write(tmp_path)),
    )
    context = ServerContext(read_certificates(config)["tcp"])
    known, stranger = trusting(AUTHORITY.pem), trusting(AUTHORITY.pem)
    files = AUTHORITY.issue(tmp_path, "client")
    known.load_cert_chain(files.cert, files.key)
    assert shaken(context, known)
    strange = Authority("another").issue(tmp_path, "stranger")
    stranger.load_cert_chain(strange.cert, strange.key)
    with pytest.raises(TlsFailure, match="certificate verify failed"):
        shaken(context, stranger)
    if auth == "optional":
        assert shaken(context, trusting(AUTHORITY.pem))
    else:
        with pytest.raises(TlsFailure, match="peer did not return a certificate"):
            shaken(context, trusting(AUTHORITY.pem))


@pytest.mark.parametrize(
    ("valid_for", "said"),
    [
        (timedelta(days=-1), "has expired"),
        (timedelta(days=3), "expires at"),
        (timedelta(days=300), ""),
    ],
)
def test_the_end_of_a_certificate_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, valid_for: timedelta, said: str
) -> None:
    files = AUTHORITY.issue(tmp_path, valid_for=valid_for)
    certificate = Certificate(files.cert.read_bytes(), files.key.read_bytes())
    with caplog.at_level(logging.INFO):
        describe("tcp", certificate)
    assert "TLS of tcp: certificate of CN=server until" in caplog.text
    warnings = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert len(warnings) == bool(said)
    assert said in caplog.text
