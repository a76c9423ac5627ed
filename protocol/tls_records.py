"""TLS as a machine without a socket: bytes of the peer in, bytes for the peer out.

The records go through the OpenSSL that comes with `cryptography`, by the binding that pyOpenSSL
uses. It is newer than the one below `ssl` on most machines, and takes half the time for a record
where the processor has vector instructions for AES. Neither side copies more than it must: what has
come is read where it lies, and is decrypted into the buffer where it is wanted.

Owned by one connection and one thread. A failure is a TlsFailure, once; nothing follows it.
"""

from collections.abc import Iterable
from typing import Any, Final

from cryptography.hazmat.bindings._rust import _openssl
from cryptography.x509 import load_der_x509_certificate
from cryptography.x509.oid import NameOID

lib: Final = _openssl.lib
ffi: Final = _openssl.ffi

PIECE_SIZE: Final = 64 * 1024
"""Encrypted at a time: what OpenSSL holds of an answer stays in the processor's cache."""

JOINED_SIZE_MAX: Final = 16 * 1024
"""Up to here parts are copied into one record; each record costs some microseconds."""

NOTHING: Final = memoryview(b"")
COMMON_NAME: Final = "commonName"

# Without this the 64 KiB of each piece would be filled with zeros first.
_room = ffi.new_allocator(should_clear_after_alloc=False)


class TlsFailure(ConnectionError):
    """What the peer sends cannot be TLS, or is TLS that is not spoken here."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"TLS: {reason}")
        self.reason = reason


def failure() -> TlsFailure:
    """What OpenSSL says last of this thread's errors; all of them are forgotten."""
    reason = "it ended early"
    while code := lib.ERR_get_error():
        text = lib.ERR_reason_error_string(code)
        reason = ffi.string(text).decode() if text else f"error {code}"
    return TlsFailure(reason)


class TlsRecords:
    """One connection of TLS."""

    __slots__ = ("_came", "_coming", "_going", "_ssl", "is_ended")

    def __init__(self, context: Any, *, is_server: bool = True) -> None:
        """`context` is an SSL_CTX of OpenSSL."""
        ssl = lib.SSL_new(context)
        if ssl == ffi.NULL:
            raise failure()
        self._ssl = ffi.gc(ssl, lib.SSL_free)
        self.is_ended = False
        """The peer has said that it sends no more."""

        # Both belong to `ssl`.
        self._coming, self._going = _memory(), _memory()
        lib.SSL_set_bio(ssl, self._coming, self._going)
        self._came = NOTHING
        if is_server:
            lib.SSL_set_accept_state(ssl)
        else:
            lib.SSL_set_connect_state(ssl)

    def receive(self, came: memoryview) -> None:
        """These bytes have come. They are read where they lie, before the next call of this."""
        self._coming = lib.BIO_new_mem_buf(ffi.from_buffer(came), len(came))
        lib.BIO_set_mem_eof_return(self._coming, -1)  # its end is not that of the connection
        lib.SSL_set_bio(self._ssl, self._coming, self._going)
        self._came = came

    def keep_rest(self) -> None:
        """What was not read yet is copied: the bytes received last are about to be overwritten."""
        left = lib.BIO_get_mem_data(self._coming, ffi.NULL)
        self.receive(memoryview(bytes(self._came[len(self._came) - left :])))

    def shake(self) -> bool:
        """Go on with the handshake as far as bytes have come; whether it is done."""
        lib.ERR_clear_error()
        done = lib.SSL_do_handshake(self._ssl)
        if done != 1:
            self._wants_more(done)
        return bool(done == 1)

    def read_into(self, buffer: memoryview) -> int:
        """Decrypt into the buffer; returns how much, 0 if more has to come or all has."""
        target, size, read = ffi.from_buffer(buffer), len(buffer), 0
        ssl, take = self._ssl, lib.SSL_read
        lib.ERR_clear_error()
        while read < size:
            # One record at most.
            taken = take(ssl, target + read, size - read)
            if taken <= 0:
                if not read:
                    self._wants_more(taken)
                break
            read += taken
        return read

    def encrypt(self, parts: Iterable[bytes | bytearray | memoryview]) -> list[memoryview]:
        """The records of these bytes, in pieces."""
        parts = list(parts)
        if sum(map(len, parts)) <= JOINED_SIZE_MAX:
            parts = [b"".join(parts)]
        ssl, write = self._ssl, lib.SSL_write
        pieces = []
        lib.ERR_clear_error()
        for part in parts:
            source, size = ffi.from_buffer(part), len(part)
            for start in range(0, size, PIECE_SIZE):
                count = min(PIECE_SIZE, size - start)
                if write(ssl, source + start, count) != count:
                    raise failure()
                pieces.append(self.unsent())
        return pieces

    def let_go(self) -> None:
        """Give up the memory that OpenSSL wrote pieces into: it stays as large as one of them."""
        self._going = _memory()
        lib.SSL_set_bio(self._ssl, self._coming, self._going)

    def unsent(self) -> memoryview:
        """What OpenSSL has for the peer: records, or a part of a handshake."""
        return _taken(self._going)

    def getpeercert(self) -> dict[str, Any] | None:
        """The certificate that the peer has shown, as `ssl` says it: only the names of its subject.

        It was verified, or the handshake would have failed. None if there is none.
        """
        shown = lib.SSL_get_peer_certificate(self._ssl)
        if shown == ffi.NULL:
            return None
        written = ffi.gc(_memory(), lib.BIO_free)
        lib.i2d_X509_bio(written, ffi.gc(shown, lib.X509_free))
        found = load_der_x509_certificate(bytes(_taken(written)))
        names = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return {"subject": tuple(((COMMON_NAME, str(one.value)),) for one in names)}

    def end(self) -> None:
        """Tell the peer that no more is sent."""
        lib.ERR_clear_error()
        lib.SSL_shutdown(self._ssl)
        lib.ERR_clear_error()

    def _wants_more(self, result: int) -> None:
        """TlsFailure unless it is only that more has to come."""
        error = lib.SSL_get_error(self._ssl, result)
        if error == lib.SSL_ERROR_ZERO_RETURN:
            self.is_ended = True
        elif error != lib.SSL_ERROR_WANT_READ:
            raise failure()


def _memory() -> Any:
    made = lib.BIO_new(lib.BIO_s_mem())
    lib.BIO_set_mem_eof_return(made, -1)
    return made


def _taken(written: Any) -> memoryview:
    size = lib.BIO_get_mem_data(written, ffi.NULL)
    if not size:
        return NOTHING
    piece = _room("char[]", size)
    lib.BIO_read(written, piece, size)
    return memoryview(ffi.buffer(piece))
