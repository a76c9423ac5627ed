"""One connection to a broker: commands go out, their answers come back.

By TCP or WebSocket, encrypted or not, or by QUIC.

Owns the socket. Any number of tasks may share a connection. Their requests take turns in the order
in which they were made, because answers carry nothing to tell them apart.

Always: an open connection is in step, that is, the next bytes from the server answer the next
request. A request that is given up (deadline, cancelled caller) leaves an answer on its way,
so it takes the connection with it.
"""

import asyncio
import os
import socket
import ssl
from typing import Any, Final, Self

from borzoi.client.address import TlsOptions, Transport
from borzoi.client.link import OutgoingBatch
from borzoi.client.reply_reader import RawReply, ReplyReader
from borzoi.client.websocket import WebSocket
from borzoi.protocol.codes import Code
from borzoi.protocol.commands import Command
from borzoi.protocol.errors import (
    BrokerError,
    CannotEstablishConnection,
    ConnectionClosed,
    InvalidFormat,
    error_for,
)
from borzoi.protocol.framing import CODE_SIZE, REQUEST_HEADER
from borzoi.protocol.generations import code_of, decode_reply, encode_command
from borzoi.protocol.send_messages import PreparedBatch, encode_prepared_messages

TIMEOUT_S: Final = 30.0
# Room for four messages of the largest size there is.
RESPONSE_SIZE_MAX: Final = 256 * 1024 * 1024
NO_MESSAGES: Final = b""


def tls_context(options: TlsOptions) -> ssl.SSLContext:
    """What a client asks of the server's certificate; OSError if a file cannot be used."""
    context = ssl.create_default_context(cafile=options.ca_file or None)
    if not options.validates:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if options.cert_file:
        context.load_cert_chain(options.cert_file, options.key_file or None)
    return context


async def _dial_quic(
    loop: asyncio.AbstractEventLoop, reader: ReplyReader, host: str, port: int, tls: TlsOptions
) -> None:
    # Imported here: most programs do not speak QUIC, and its library is large.
    from borzoi.client.datagrams import connected_datagrams
    from borzoi.client.quic import QuicTransport, client_configuration

    configuration = client_configuration(host, tls)
    udp = await connected_datagrams(loop, host, port)
    below = QuicTransport(loop, reader, configuration, udp)
    try:
        await below.opened
    except asyncio.CancelledError:
        # The deadline, which is the caller's to tell of.
        reader.end(ConnectionClosed("it was not open in time"))
        raise


def cause_of(error: OSError) -> str:
    """What the system says; asyncio's text repeats the address, and a number before it.

    The number of an error of TLS is one of OpenSSL, not of the system.
    """
    number = error.errno
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        return "the server speaks no TLS there"
    if isinstance(error, socket.gaierror):
        return error.strerror or f"{error}"
    if isinstance(error, ssl.SSLError) or number is None or number <= 0:
        return f"{error}"
    return os.strerror(number)


class RequestTimeout(TimeoutError):
    """No answer before the deadline. The connection is closed, the outcome is not known."""


class Connection:
    """Made by open(). Not logged in; that is a request like any other."""

    def __init__(self, reader: ReplyReader, timeout_s: float) -> None:
        self._reader = reader
        self._timeout_s = timeout_s
        self._turn = asyncio.Lock()  # wakes its waiters first come, first served

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        timeout_s: float = TIMEOUT_S,
        *,
        response_size_max: int = RESPONSE_SIZE_MAX,
        transport: Transport = "tcp",
        tls: TlsOptions | None = None,
    ) -> Self:
        """Connect; `timeout_s` is for this and then for each request once it has its turn."""
        loop = asyncio.get_running_loop()
        reader = ReplyReader(loop, response_size_max)
        below = WebSocket(loop, reader, f"{host}:{port}") if transport == "ws" else None
        try:
            async with asyncio.timeout(timeout_s):
                if transport == "quic":
                    await _dial_quic(loop, reader, host, port, tls or TlsOptions())
                    return cls(reader, timeout_s)
                await loop.create_connection(
                    lambda: below or reader,
                    host,
                    port,
                    ssl=None if tls is None else tls_context(tls),
                    server_hostname=None if tls is None else tls.domain or host,
                )
                if below is not None:
                    await below.opened
        except OSError as error:  # TimeoutError is one, and says nothing itself
            cause = cause_of(error) or f"no answer within {timeout_s} s"
            raise CannotEstablishConnection(f"cannot connect to {host}:{port}: {cause}") from error
        return cls(reader, timeout_s)

    @property
    def is_open(self) -> bool:
        """Whether requests can still be sent."""
        return self._reader.is_open

    async def request(self, command: Command) -> Any:
        """The value a command is answered with; None where it has none or found nothing.

        Raises the BrokerError of the answer's status, ConnectionClosed when the server went
        away, RequestTimeout and ResponseTooBig.
        """
        return await self.request_parts(code_of(command), encode_command(command))

    async def send_batch(self, batch: OutgoingBatch) -> None:
        """Returns when the batch is acknowledged. Its messages are not copied."""
        stream, topic, partitioning, (count, index_and_messages) = batch
        target = PreparedBatch(count, NO_MESSAGES)
        metadata = encode_prepared_messages(stream, topic, partitioning, target)
        await self.request_parts(Code.SEND_MESSAGES, metadata, index_and_messages)

    async def request_parts(self, code: int, *payload: bytes) -> Any:
        """As request(), for a payload that is already encoded, in one piece or several."""
        status, answer = await self.send_raw(code, *payload)
        if status:
            raise error_for(status, answer.decode(errors="replace"))
        try:
            return decode_reply(code, memoryview(answer))
        except BrokerError as error:
            # Its own status would look like something the server has said.
            raise InvalidFormat(f"the answer to command {code} is unreadable: {error}") from error

    async def send_raw(self, code: int, *payload: bytes) -> RawReply:
        """Any code and payload, and whatever the server says to it, errors included."""
        length = CODE_SIZE + sum(map(len, payload))
        header = REQUEST_HEADER.pack(length, code)
        async with self._turn:
            reply = self._reader.ask((header, *payload))
            deadline = asyncio.get_running_loop().call_later(self._timeout_s, self._give_up, code)
            try:
                return await reply
            finally:
                deadline.cancel()
                if reply.cancelled():
                    self._reader.end(ConnectionClosed("a caller did not wait for its answer"))

    async def close(self) -> None:
        """Close at once; a request that is still unanswered fails. May be called twice."""
        self._reader.end(ConnectionClosed("it was closed on this side"))
        await self._reader.wait_lost()

    def _give_up(self, code: int) -> None:
        self._reader.end(RequestTimeout(f"command {code} had no answer in {self._timeout_s} s"))
