"""The start of the nursery (nursery.py), which comes before anything else of a broker.

Imports next to nothing, so that the nursery imports what workers need while the supervisor reads
its configuration. Here are also the messages between the two, because neither imports the other.

    supervisor -> nursery   ORDER, the number of descriptors; they come with it and, if they are
                            more than FDS_MAX, with further messages (MORE): the specification of
                            the worker, the lock on the data directory, then WorkerSpec.fds()
    nursery -> supervisor   READY once, then BORN for each order: the worker's process id, or 0
"""

import os
import signal
import socket
import sys
from struct import Struct
from typing import Final

READY: Final = b"ready"
ORDER: Final = Struct("<I")
MORE: Final = b"more"
BORN: Final = Struct("<q")
# Not as a module with -m, which imports for itself; and a collection finds nothing meanwhile.
PROGRAM: Final = "import gc; gc.disable(); from borzoi.shards.nursery.nursery import main; main()"
NAME: Final = "nursery---"
"""The last argument, as a list of processes shows it.

A worker overwrites it in place with what it is (nursery.py), which is as long: shard-0001.
"""


class NurseryProcess:
    """A nursery and our end of the channel to it."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self.channel = channel
        self._lives = True

    def kill(self) -> None:
        """Kill it and wait until it is gone. May be repeated."""
        if self._lives:
            self._lives = False
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def end(self) -> None:
        """Kill it and close the channel. May be repeated."""
        self.kill()
        self.channel.close()


def start_nursery() -> NurseryProcess:
    """Start one; it says when it is ready."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        theirs.set_inheritable(True)
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-c", PROGRAM, str(theirs.fileno()), NAME],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)],
        )
    return NurseryProcess(pid, ours)
