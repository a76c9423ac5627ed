"""The specification of a worker at its start, and the orders and events that travel later.

The specification lies in a memfd. It may hold the encryption key, the keys of certificates and the
hash of a password, which must not be seen in a process list. It goes through the nursery
(nursery.py) together with the descriptors that it names, by the supervisor's numbers; the worker
renumbers it.

    supervisor -> worker   recover, listen(doors), stop,
                           replace_peer(shard, generation) + 2 fds, adopt(session) + 1 fd,
                           refuse(refused), renew + 1 fd with the certificates,
                           keys(generation) + 1 fd with the encryption keys
    worker -> supervisor   metadata_ready(root_created), recovered,
                           keys_taken(generation), reencrypted(reason: the id of the key),
                           listening(doors), cannot_boot(reason),
                           peer_replaced(shard, generation),
                           hand_over(shard, session) + 1 fd, passed on as adopt

Doors are addresses by the name of their table in the configuration: those that are switched on.
"""

import os
from collections.abc import Sequence
from typing import Final

import msgspec

from borzoi.shards.faults.poison import Refusal
from borzoi.shards.loop.clock import BrokerStart
from borzoi.shards.rosters.share import Seat
from borzoi.shards.tls.certificate import Certificate

SPEC_SIZE_MAX: Final = 2 << 20

CANNOT_BOOT: Final = 3
"""Exit code of a worker that cannot start, however often it is tried: the broker stops."""

INCOMPLETE: Final = 4
"""Exit code of a worker that stopped in order, but not everything acknowledged is on the disk."""

BROKEN: Final = 70
"""Exit code of a worker that found one of its own invariants broken: it is restarted."""


class Root(msgspec.Struct, frozen=True):
    """The root account of a first boot. Hashed by the supervisor, while the nursery imports."""

    username: str
    password_hash: str


class WorkerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a worker needs to know before it can talk."""

    supervisor_pid: int
    broker_start: BrokerStart
    shard: int
    shard_count: int
    cpu: int | None
    node: int | None
    config: msgspec.Raw
    rust_log: str
    follower: bool
    shares_port: bool
    root: Root | None
    # A start that is not asked to keep it ends with it, where others can log in.
    refuses_known_password: bool
    # That of now first. Empty if nothing is or was encrypted.
    encryption_keys: tuple[bytes, ...]
    # None on the first boot: the worker waits for orders. A restarted one goes on by itself, with
    # the doors that its predecessor had.
    doors: dict[str, str] | None
    # By door: the certificates with their keys, of those that are encrypted.
    certificates: dict[str, Certificate]
    generations: tuple[int, ...]
    budget: int
    arena_size: int
    board_slots: int
    channel_fd: int
    board_fd: int
    # Numbered requests; of one shard so many clients are remembered.
    requests_fd: int
    requests_entries: int
    clean_stop_fd: int
    control_fds: tuple[int, ...]
    arena_fds: tuple[int, ...]
    wake_fds: tuple[int, ...]
    # Where a traceback is left by a fatal signal.
    trace_fd: int
    refused: tuple[Refusal, ...]

    def fds(self) -> tuple[int, ...]:
        """Every descriptor the worker is given."""
        single = (
            self.channel_fd,
            self.board_fd,
            self.requests_fd,
            self.clean_stop_fd,
            self.trace_fd,
        )
        return (*single, *self.control_fds, *self.arena_fds, *self.wake_fds)

    def renumbered(self, fds: Sequence[int]) -> "WorkerSpec":
        """The same with the descriptors `fds`, which are in the order of fds()."""
        assert len(fds) == len(self.fds()), "a descriptor is missing"
        channel_fd, board_fd, requests_fd, clean_stop_fd, trace_fd, *rest = fds
        count = self.shard_count
        return msgspec.structs.replace(
            self,
            channel_fd=channel_fd,
            board_fd=board_fd,
            requests_fd=requests_fd,
            clean_stop_fd=clean_stop_fd,
            trace_fd=trace_fd,
            control_fds=tuple(rest[:count]),
            arena_fds=tuple(rest[count : 2 * count]),
            wake_fds=tuple(rest[2 * count :]),
        )


class SessionState(msgspec.Struct, frozen=True):
    """What goes along with a socket that moves to another shard."""

    address: str
    user_id: int
    user_created_at: int
    generation: str
    knows_all_codecs: bool
    last_heartbeat: float  # of the monotonic clock, which all processes of a machine share
    seats: tuple[Seat, ...] = ()
    bound: tuple[int, bytes] = (0, b"")  # protocol/framing.py: Bound
    reads_texts: bool = False


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """From the supervisor."""

    order: str
    doors: dict[str, str] = {}
    shard: int = -1
    generation: int = 0
    session: SessionState | None = None
    refused: tuple[Refusal, ...] = ()


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """From a worker."""

    event: str
    doors: dict[str, str] = {}
    shard: int = -1
    generation: int = 0
    reason: str = ""
    root_created: bool = False
    session: SessionState | None = None


def write_spec(spec: WorkerSpec) -> int:
    """A memfd with the specification, for the worker."""
    fd = os.memfd_create("borzoi-spec", os.MFD_CLOEXEC)
    os.write(fd, msgspec.json.encode(spec))
    return fd


def read_spec(fd: int) -> WorkerSpec:
    """The specification, read and closed."""
    try:
        return msgspec.json.decode(os.pread(fd, SPEC_SIZE_MAX, 0), type=WorkerSpec)
    finally:
        os.close(fd)


def write_shown(certificates: dict[str, Certificate]) -> int:
    """A memfd with the certificates that doors show from now on."""
    fd = os.memfd_create("borzoi-certificates", os.MFD_CLOEXEC)
    os.write(fd, msgspec.json.encode(certificates))
    return fd


def write_keys(keys: tuple[bytes, ...]) -> int:
    """A memfd with the encryption keys that count from now on, the one that encrypts first."""
    fd = os.memfd_create("borzoi-keys", os.MFD_CLOEXEC)
    os.write(fd, msgspec.json.encode(keys))
    return fd


def read_keys(fd: int) -> tuple[bytes, ...]:
    """The encryption keys, read and closed."""
    try:
        return msgspec.json.decode(os.pread(fd, SPEC_SIZE_MAX, 0), type=tuple[bytes, ...])
    finally:
        os.close(fd)


def read_shown(fd: int) -> dict[str, Certificate]:
    """The certificates, read and closed."""
    try:
        return msgspec.json.decode(os.pread(fd, SPEC_SIZE_MAX, 0), type=dict[str, Certificate])
    finally:
        os.close(fd)
