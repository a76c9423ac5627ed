"""Which worker holds the server's end of a connection, and which one writes a partition.

Both are found from outside, through /proc, because a bench knows the wire and not the server. The
socket is found by its inode. The owner of a partition is the worker whose file writes grow when it
is sent to.
"""

import os
from collections.abc import Mapping
from pathlib import Path


def shard_of_connection(
    workers: Mapping[int, int], server_port: int, client_port: int
) -> int | None:
    """The shard whose process has the socket from `client_port` to `server_port` open."""
    for shard, pid in workers.items():
        inode = _inode(pid, server_port, client_port)
        if inode is not None and _holds(pid, inode):
            return shard
    return None


def written_bytes(pid: int) -> int:
    """Bytes this process has handed to write calls on files so far."""
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "wchar":
            return int(value)
    return 0


def _inode(pid: int, server_port: int, client_port: int) -> str | None:
    # sl  local_address  rem_address  st  tx:rx  tr:when  retrnsmt  uid  timeout  inode
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        local, remote = _port(fields[1]), _port(fields[2])
        if (local, remote) == (server_port, client_port):
            return fields[9]
    return None


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def _holds(pid: int, inode: str) -> bool:
    wanted = f"socket:[{inode}]"
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if os.readlink(entry) == wanted:
                return True
        except FileNotFoundError:
            continue
    return False
