"""A TLS context for a door: TLS 1.3 and 1.2, no older ones, no renegotiation."""

from collections.abc import Sequence
from typing import Any, Final, Protocol

from borzoi.protocol.tls_records import TlsRecords, failure, ffi, lib

CIPHERS: Final = b"ECDH+AESGCM:ECDH+CHACHA20:ECDH+AES:!aNULL:!eNULL:!SHA1:!AESCCM"
"""Of TLS 1.2: those that Python allows by default, with fresh keys for each connection."""

OPTIONS: Final = (
    lib.SSL_OP_NO_RENEGOTIATION
    | lib.SSL_OP_NO_COMPRESSION
    | lib.SSL_OP_CIPHER_SERVER_PREFERENCE
    | lib.SSL_OP_SINGLE_ECDH_USE
    # An end without a goodbye is an end like any other: requests carry their length.
    | lib.SSL_OP_IGNORE_UNEXPECTED_EOF
)
MODES: Final = (
    # An idle connection keeps no room for a record.
    lib.SSL_MODE_RELEASE_BUFFERS | lib.SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER
)
CLIENT_AUTH: Final = {
    "none": lib.SSL_VERIFY_NONE,
    "optional": lib.SSL_VERIFY_PEER,
    "required": lib.SSL_VERIFY_PEER | lib.SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
}
SESSIONS_OF: Final = b"borzoi"
SELECTS: Final = (
    "int(SSL *, const unsigned char **, unsigned char *, const unsigned char *, unsigned, void *)"
)


class Served(Protocol):
    """What a context is made of, all PEM; `client_auth` is a key of CLIENT_AUTH."""

    @property
    def chain(self) -> bytes:
        """The certificate of the door, then those that vouch for it."""

    @property
    def key(self) -> bytes:
        """Its private key, without a passphrase."""

    @property
    def client_ca(self) -> bytes:
        """Authorities that sign certificates of clients."""

    @property
    def client_auth(self) -> str:
        """Whether clients have to show one."""


class ServerContext:
    """Shows one certificate to all connections that begin with it."""

    def __init__(self, served: Served, protocols: Sequence[bytes] = ()) -> None:
        """TlsFailure if it cannot be used. `protocols`: the names for ALPN, best first."""
        made = lib.SSL_CTX_new(lib.TLS_server_method())
        self._context = context = ffi.gc(made, lib.SSL_CTX_free)
        lib.ERR_clear_error()
        lib.SSL_CTX_set_min_proto_version(context, lib.TLS1_2_VERSION)
        lib.SSL_CTX_set_options(context, OPTIONS)
        lib.SSL_CTX_set_mode(context, MODES)
        _check(lib.SSL_CTX_set_cipher_list(context, CIPHERS))
        # Without a name sessions of clients that show a certificate are not resumed, but refused.
        lib.SSL_CTX_set_session_id_context(context, SESSIONS_OF, len(SESSIONS_OF))
        first, *others = _certificates(served.chain) or [ffi.NULL]
        _check(first != ffi.NULL and lib.SSL_CTX_use_certificate(context, first))
        for one in others:
            lib.X509_up_ref(one)  # the next call takes it over
            _check(lib.SSL_CTX_add_extra_chain_cert(context, one))
        _check(lib.SSL_CTX_use_PrivateKey(context, _private_key(served.key)))
        _check(lib.SSL_CTX_check_private_key(context))
        if served.client_auth != "none":
            store = lib.SSL_CTX_get_cert_store(context)
            for one in _certificates(served.client_ca):
                _check(lib.X509_STORE_add_cert(store, one))
        lib.SSL_CTX_set_verify(context, CLIENT_AUTH[served.client_auth], ffi.NULL)
        if protocols:
            self._select = _selection(protocols)  # OpenSSL keeps no hold of it
            lib.SSL_CTX_set_alpn_select_cb(context, self._select, ffi.NULL)

    def records(self) -> TlsRecords:
        """A connection that begins."""
        return TlsRecords(self._context)


def _check(done: int) -> None:
    if done != 1:
        raise failure()


def _pem(text: bytes) -> Any:
    return ffi.gc(lib.BIO_new_mem_buf(ffi.from_buffer(text), len(text)), lib.BIO_free)


def _certificates(pem: bytes) -> list[Any]:
    source, found = _pem(pem), []
    while (one := lib.PEM_read_bio_X509(source, ffi.NULL, ffi.NULL, ffi.NULL)) != ffi.NULL:
        found.append(ffi.gc(one, lib.X509_free))
    lib.ERR_clear_error()  # that there are no more
    return found


def _private_key(pem: bytes) -> Any:
    # A passphrase is given, so that none is asked for at the terminal.
    key = lib.PEM_read_bio_PrivateKey(_pem(pem), ffi.NULL, ffi.NULL, b"")
    if key == ffi.NULL:
        raise failure()
    return ffi.gc(key, lib.EVP_PKEY_free)


def _selection(protocols: Sequence[bytes]) -> Any:
    names = [ffi.new("unsigned char[]", name) for name in protocols]

    def select(_ssl: Any, chosen: Any, size: Any, offered: Any, length: int, _: Any) -> int:
        rest, found = bytes(ffi.buffer(offered, length)), set()
        while rest:
            found.add(rest[1 : 1 + rest[0]])
            rest = rest[1 + rest[0] :]
        for name, kept in zip(protocols, names, strict=True):
            if name in found:
                chosen[0], size[0] = kept, len(name)
                return int(lib.SSL_TLSEXT_ERR_OK)
        return int(lib.SSL_TLSEXT_ERR_NOACK)

    return ffi.callback(SELECTS, select)
