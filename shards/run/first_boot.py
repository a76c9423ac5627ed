"""How shard 0 opens the metadata: the log as its one writer, and the root user of a first boot."""

import logging
import time
from typing import Final

from borzoi.shards.changes.bootstrap import ensure_root, root_missing
from borzoi.shards.decisions.decide import MetadataSettings
from borzoi.shards.identity.passwords import verify_password
from borzoi.shards.identity.root_account import DEFAULT_PASSWORD
from borzoi.shards.metadata.state import ROOT_USER_ID
from borzoi.shards.metadata_log.writer import MetadataWriter, SnapshotRule, open_writer
from borzoi.shards.orders.spec import Root
from borzoi.shards.settings.addresses import is_loopback
from borzoi.shards.settings.open_doors import WITH_LOGIN, is_loopback_only, open_doors
from borzoi.shards.settings.schema import Config
from borzoi.shards.wiring.cannot_boot import CannotBoot
from borzoi.storage.encrypted import Encryption
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout
from borzoi.storage.wal import PublishedLog, WalDamaged

LOG: Final = logging.getLogger(__name__)


def open_metadata(
    config: Config,
    layout: DataLayout,
    files: Files,
    root: Root | None,
    *,
    published: PublishedLog,
    slots_max: int,
    encryption: Encryption | None = None,
    refuses_known_password: bool = False,
) -> tuple[MetadataWriter, bool]:
    """The writer, and whether it has just made the root user. Publish its end before serving."""
    system = config.system
    settings = MetadataSettings(
        segment_size=system.segment.size,
        message_expiry=system.topic.message_expiry,
        max_topic_size=system.topic.max_size,
        max_tokens_per_user=config.personal_access_token.max_tokens_per_user,
        slots_max=slots_max,
    )
    try:
        writer = open_writer(
            layout.state_log,
            layout.state_snapshot,
            files,
            settings,
            published=published,
            rule=SnapshotRule(system.state.snapshot_entries, system.state.snapshot_size),
            encryption=encryption,
        )
    except WalDamaged as error:
        raise CannotBoot(str(error)) from error
    if writer.torn is not None:
        LOG.warning("the metadata log ended in an incomplete entry, which was cut off")
    created = False
    if root_missing(writer):
        if root is None:
            raise CannotBoot(f"{layout.state_log} holds no root user")
        now_us = time.time_ns() // 1000
        created = ensure_root(writer, root.username, root.password_hash, now_us)
    if not is_loopback_only(config):
        _tell_of_known_password(config, writer, refuses=refuses_known_password)
    return writer, created


def _tell_of_known_password(config: Config, writer: MetadataWriter, *, refuses: bool) -> None:
    """A directory that began its life on loopback may still have the password of that time."""
    root = writer.state.users[ROOT_USER_ID]
    if not verify_password(root.password_hash, DEFAULT_PASSWORD):
        return
    if not refuses:
        LOG.warning(
            "others can connect, and the password of %s is the default: change it", root.username
        )
        return
    doors = open_doors(config)
    reachable = ", ".join(
        f"{name}.address is {doors[name]}"
        for name in WITH_LOGIN
        if name in doors and not is_loopback(doors[name])
    )
    raise CannotBoot(
        f"{reachable}, and the password of {root.username!r} is the well-known one: change it with"
        " `borzoi reset-root`, listen on loopback, or say --with-default-root-credentials"
    )
