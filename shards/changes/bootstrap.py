"""The first entry of every log: the root user, who may do everything.

Runs on shard 0 before anything is published or served, so nothing has to wait for anybody.
"""

from borzoi.protocol.permissions import ALL_PERMISSIONS, UserStatus
from borzoi.shards.decisions.commands import CreateHashedUser
from borzoi.shards.metadata.state import ROOT_USER_ID
from borzoi.shards.metadata_log.writer import MetadataWriter


def root_missing(writer: MetadataWriter) -> bool:
    """Whether ensure_root would create the root user; hashing a password can be saved otherwise."""
    return ROOT_USER_ID not in writer.state.users


def ensure_root(writer: MetadataWriter, username: str, password_hash: str, timestamp: int) -> bool:
    """Log user 0 with all ten global permissions, unless there is one. True if it was created.

    Durable when it returns. Later calls change nothing, whatever name and password they bring.
    """
    if not root_missing(writer):
        return False
    command = CreateHashedUser(username, password_hash, UserStatus.ACTIVE, ALL_PERMISSIONS)
    writer.append(writer.prepare(command, user_id=ROOT_USER_ID, timestamp=timestamp))
    writer.sync()
    writer.applied()
    assert ROOT_USER_ID in writer.state.users, "a log without a root user holds other users"
    return True
