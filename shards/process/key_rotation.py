"""The exchange of the encryption key on a running broker, as the supervisor leads it.

    asked        the key file is read again; what cannot be used is refused, and nothing changes
    known        every worker has the new key, to read with it; the old one still encrypts
    noted        encryption-check says, durably, that the directory needs both
    in use       every worker encrypts with the new key, and what it owns once more
    forgotten    every worker is done, nothing on the disk needs the old key: the check drops it

A worker that dies is replaced by one that gets the keys of that moment. A kill of everything
leaves a directory that needs both keys, or the old one alone as long as nothing was encrypted with
the new one; the next start goes on. Always: nothing is encrypted with a key that the check does not
name, and that not every worker can read with.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from typing import Final

from borzoi.shards.config import Config
from borzoi.shards.directory.key import configured_keys, exchange
from borzoi.shards.metadata_log.snapshot import SnapshotDamaged
from borzoi.shards.nursery.spawning import Spawner, WorkerProcess
from borzoi.shards.orders.spec import Order, write_keys
from borzoi.shards.rotation.progress import still_needed
from borzoi.shards.rotation.request import is_asked, refuse, take_request
from borzoi.shards.settings.errors import ConfigError
from borzoi.storage.encrypted import Encryption
from borzoi.storage.encryption_key import EncryptionKey, KeyRefused, compare_check, write_check
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout
from borzoi.storage.wal import WalDamaged

LOG: Final = logging.getLogger(__name__)

LOOK_AGAIN_S: Final = 60.0

Send = Callable[[WorkerProcess, Order, tuple[int, ...]], None]


class KeyRotation:
    """One for each run of a broker that has a key."""

    def __init__(
        self,
        config: Config,
        layout: DataLayout,
        encryption: Encryption,
        spawner: Spawner,
        workers: Sequence[WorkerProcess],
        send: Send,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._config = config.system.encryption
        self._layout = layout
        self._encryption = encryption
        self._spawner = spawner
        self._workers = workers
        self._send = send
        self._files = Files()
        self._needed = compare_check(layout, self._files, encryption.keys)
        # The keys to come, from the request until all workers encrypt with the first.
        self._next: list[EncryptionKey] | None = None
        self._is_noted = False
        self._number = 0
        self._ordered: dict[int, int] = {}
        self._reported: dict[int, tuple[int, str]] = {}
        self._looking = False
        self._look_at = 0.0

    def look(self) -> None:
        """Once a second: whether there is a request, or a step is done."""
        if self._next is None:
            if is_asked(self._layout):
                take_request(self._layout, self._files)
                self._begin()
            else:
                self._forget_if_done()
        elif not self._waits():
            self._go_on(self._next)

    def taken(self, shard: int, number: int) -> None:
        """A worker has the keys of the order of this number."""
        if number == self._number:
            self._ordered.pop(shard, None)
            self.look()

    def reencrypted(self, worker: WorkerProcess, key_id: str) -> None:
        """All that a worker owns and can read is encrypted with this key."""
        self._reported[worker.shard] = (worker.generation, key_id)

    def _waits(self) -> bool:
        """Whether a worker that was given keys still lives and has not taken them."""
        return any(
            one.process is not None and one.generation == self._ordered.get(one.shard)
            for one in self._workers
        )

    def _begin(self) -> None:
        try:
            keys = configured_keys(self._config)
            self._needed = compare_check(self._layout, self._files, keys)
            self._refuse_useless(keys)
        except (ConfigError, KeyRefused) as error:
            LOG.error("the encryption key stays as it is: %s", error)
            refuse(self._layout, self._files, str(error))
            return
        self._next, self._is_noted = keys, False
        current = self._encryption.key
        self._give([current, *(key for key in keys if key != current)])

    def _refuse_useless(self, keys: Sequence[EncryptionKey]) -> None:
        if not self._config.enabled:
            raise ConfigError("system.encryption.enabled is false: needs true to exchange the key")
        if not keys or keys[0] == self._encryption.key:
            place = self._config.key_file or "system.encryption.key"
            raise ConfigError(
                f"the key that is in use, {self._encryption.key.id.hex()}, is the first one of"
                f" {place}: put the new one in front of it"
            )

    def _go_on(self, keys: list[EncryptionKey]) -> None:
        if self._is_noted:
            self._next = None
            return
        try:
            exchange(self._layout, self._files, keys[0], self._needed)
        except OSError as error:
            LOG.error("the encryption key stays as it is: %s", error)
            refuse(self._layout, self._files, str(error))
            self._next = None
            return
        self._is_noted = True
        self._needed = [keys[0], *(key for key in self._needed if key != keys[0])]
        self._encryption.take(keys)
        self._give(keys)

    def _give(self, keys: Sequence[EncryptionKey]) -> None:
        """Send keys to all workers; one that is started from now on has them at once."""
        secrets = tuple(key.secret_bytes() for key in keys)
        self._spawner.encryption_keys = secrets
        self._number += 1
        self._ordered = {}
        fd = write_keys(secrets)
        for one in self._workers:
            if one.process is not None and one.channel is not None:
                self._ordered[one.shard] = one.generation
                self._send(one, Order("keys", generation=self._number), (fd,))
        os.close(fd)

    def _forget_if_done(self) -> None:
        is_over = self._needed == [self._encryption.key]
        if self._looking or is_over or self._loop.time() < self._look_at:
            return
        key_id = self._encryption.key.id.hex()
        for one in self._workers:
            if self._reported.get(one.shard) != (one.generation, key_id):
                return
        self._looking = True
        looking = self._loop.run_in_executor(
            None, still_needed, self._layout, self._files, self._needed, self._encryption
        )
        looking.add_done_callback(self._looked)

    def _looked(self, looking: "asyncio.Future[list[EncryptionKey]]") -> None:
        self._looking = False
        self._look_at = self._loop.time() + LOOK_AGAIN_S
        try:
            needed = looking.result()
            if self._next is not None:
                # Another exchange has begun meanwhile.
                return
            gone = [key.id.hex() for key in self._needed if key not in needed]
            if gone:
                write_check(self._layout, self._files, needed)
        except (OSError, WalDamaged, SnapshotDamaged) as error:
            LOG.warning("which keys are still needed is unknown, to be looked at again: %s", error)
            return
        self._needed = needed
        if gone:
            LOG.info(
                "nothing here needs the encryption key %s any more: `borzoi encryption forget`"
                " removes it; an archive may still need it",
                ", ".join(gone),
            )
