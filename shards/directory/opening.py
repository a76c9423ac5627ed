"""The data directory before the workers start: locked, looked at, and made ready.

What was left behind is judged here: another format, a wrong key, or partitions without metadata
stop the broker before anything is touched. The log begins here too, because it lies in there.

Always: nothing below system.path is read or changed before the lock is held. The lock is held until
the last process of this run is gone (directory/lock.py).
"""

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from borzoi import __version__
from borzoi.shards.config import Config
from borzoi.shards.directory.archive_place import archive_directory, lies_within_data
from borzoi.shards.directory.key import open_encryption
from borzoi.shards.directory.lock import empty_data_directory, lock_data_directory
from borzoi.shards.directory.log_lines import set_up_logging
from borzoi.shards.directory.serve_options import ServeOptions
from borzoi.shards.identity.root_account import RootAccount, decide_root, store_root_password
from borzoi.shards.metadata_log.shortening import shorten_log
from borzoi.shards.settings.errors import ConfigError
from borzoi.shards.settings.open_doors import is_loopback_only
from borzoi.shards.settings.schema import archives
from borzoi.storage.clean_stop import CleanStop
from borzoi.storage.encrypted import Encryption
from borzoi.storage.encryption_key import KeyRefused
from borzoi.storage.files import Files
from borzoi.storage.info import UnknownDataFormat, read_info, write_info
from borzoi.storage.layout import DataLayout
from borzoi.storage.wal import ENTRY_SIZE_MAX, InvalidEntry, decode_entry
from borzoi.terminal import say

LOG: Final = logging.getLogger(__name__)


class OpenData(NamedTuple):
    """A data directory that is ours for this run."""

    layout: DataLayout
    root: RootAccount | None  # to be made: there is no metadata yet
    clean: CleanStop | None
    lock_fd: int
    encryption: Encryption | None


def open_data_directory(
    config: Config,
    warnings: tuple[str, ...],
    options: ServeOptions,
    check_doors: Callable[[], None],
    replicate: Callable[[DataLayout, Files], None] | None = None,
) -> OpenData | None:
    """Lock and prepare what is below system.path; None if it must not be touched.

    `check_doors` raises ConfigError if a port is taken, and is called before anything is made. In a
    directory that exists it waits for the lock: workers of a broker that was killed hold both.
    `replicate` brings the metadata of a cluster here, or raises ConfigError.
    """
    system = config.system
    data = Path(system.path)
    if is_new := not data.exists():
        check_doors()
    lock_fd = lock_data_directory(data)
    if not is_new:
        check_doors()
    if options.fresh:
        empty_data_directory(data)
    files = Files()
    layout = DataLayout(data, system.stream.path, system.topic.path, system.partition.path)
    layout.create_skeleton(files)
    set_up_logging(system.logging, data, "supervisor", options.environ)
    for text in (*warnings, *_archive_notes(config)):
        LOG.warning("%s", text)
    try:
        info = read_info(layout, files)
    except UnknownDataFormat as error:
        LOG.error("%s", error)
        return None
    try:
        encryption = open_encryption(system, layout, files)
        (replicate or _check_not_replicated)(layout, files)
    except (ConfigError, KeyRefused) as error:
        LOG.error("cannot start: %s", error)
        say(f"borzoi: {error}", err=True)
        return None
    write_info(layout, files, __version__, info)
    _shorten_metadata(layout, files, encryption)
    shutil.rmtree(layout.runtime, ignore_errors=True)
    os.makedirs(layout.runtime)
    root = _first_root(config, options, layout, files)
    if root is not None and any(layout.partition_directories(files)):
        # Recovery removes what the metadata does not know: here that would be everything.
        LOG.error(
            "%s is missing or empty, but %s holds partitions: put the file back, or start with"
            " --fresh to delete all data",
            layout.state_log,
            layout.streams,
        )
        return None
    if root is not None and root.store_password_file:
        # Before the account exists: a kill in between must not leave one without a known password.
        store_root_password(data, root.password)
    return OpenData(layout, root, CleanStop.take(layout, files), lock_fd, encryption)


def _check_not_replicated(layout: DataLayout, _files: Files) -> None:
    if os.path.exists(layout.membership):
        raise ConfigError(
            f"{layout.root} is a copy of what a cluster has, and replication is off: set"
            " replication.enabled, or take another system.path"
        )


def _archive_notes(config: Config) -> tuple[str, ...]:
    if not archives(config) or not lies_within_data(config):
        return ()
    return (
        f"the archive lies in the data directory, {archive_directory(config)}: it brings back what"
        " was deleted, but is lost with the disk; set system.backup.path",
    )


def _shorten_metadata(layout: DataLayout, files: Files, encryption: Encryption | None) -> None:
    try:
        shortened = shorten_log(layout.state_log, layout.state_snapshot, files, encryption)
    except OSError as error:
        LOG.warning("%s stays as long as it is: %s", layout.state_log, error)
        return
    if shortened is not None:
        LOG.info(
            "%s lost %d bytes, its entries up to %d are in the snapshots",
            layout.state_log,
            shortened.size_bytes,
            shortened.last_index,
        )


def _first_root(
    config: Config, options: ServeOptions, layout: DataLayout, files: Files
) -> RootAccount | None:
    """The root account, if there is no metadata yet.

    A log without a complete entry counts as none: the first boot was killed while it wrote that.
    """
    begin = files.read_all(layout.state_log, ENTRY_SIZE_MAX) or b""
    try:
        decode_entry(memoryview(begin), 0, len(begin))
    except InvalidEntry:
        pass
    else:
        return None
    return decide_root(
        options.environ,
        is_loopback_only(config),
        with_default_credentials=options.default_root_credentials,
    )
