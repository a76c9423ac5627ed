"""What the parts of a connection know of each other: the session it carries, and its framing."""

from typing import Protocol

from borzoi.protocol.framing import Framing
from borzoi.protocol.generations import Generation
from borzoi.shards.serving.numbered import CarryOut


class Framed(Protocol):
    """A connection as far as its framing goes, which may change with what its client says."""

    framing: Framing


class SessionOfConnection(Protocol):
    """What a connection needs of the session it carries."""

    user_id: int | None
    generation: Generation

    def speak(self, generation: Generation) -> None:
        """The client is of this generation, as its first bytes tell."""

    @property
    def status_without_login(self) -> int | None:
        """What larger frames are refused with; None: a user is logged in, they are welcome."""

    @property
    def taker(self) -> str:
        """In whose name memory is taken for what the client sends."""

    def refusal_of_send(self, head: memoryview) -> int:
        """The status with which a SEND_MESSAGES will be refused that begins so; 0: not by this.

        `head` is the first HEAD_SIZE_MAX bytes of the payload, or more.
        """

    @property
    def carry_out(self) -> CarryOut:
        """Carries out one request; it ends with one `reply` to the connection.

        The payload begins where it is said in the buffer, or lies in private memory if that is
        None. It is valid until the call returns; that of SEND_MESSAGES until the reply.
        """

    def closed(self) -> None:
        """The peer is gone."""
