"""A TLS context for a door: TLS 1.3 and 1.2, no older ones, no renegotiation.

`ssl` reads certificates from files only. They are handed to it in memory that has a name for this
process alone, so that no key is ever written to a disk.
"""

import os
import ssl
from typing import Final, NoReturn, Protocol

CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


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


def server_context(served: Served) -> ssl.SSLContext:
    """A context that shows this certificate; ssl.SSLError if it cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    fd = os.memfd_create("borzoi-tls", os.MFD_CLOEXEC)
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(served.chain + b"\n" + served.key)
        context.load_cert_chain(f"/proc/self/fd/{fd}", password=_no_passphrase)
    finally:
        os.close(fd)
    if served.client_auth != "none":
        context.load_verify_locations(cadata=served.client_ca.decode("ascii", "replace"))
        context.verify_mode = CLIENT_AUTH[served.client_auth]
    return context


def _no_passphrase() -> NoReturn:
    """Called for an encrypted key, in place of a prompt on the terminal."""
    raise ssl.SSLError("the private key is encrypted")
