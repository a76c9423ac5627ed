"""What handing batches from one core to another costs when nothing else is done with them.

Eight connections send frames. A process receives eight of them into shared memory, hashes them and
appends them to a file with one write. Then it answers. Then the same with two processes. One
receives and answers, the other hashes and appends, on the core of the other shard. Each is woken
once per eight frames through an eventfd. Compared is the CPU time of all that is not the generator.
The ratio of the two is what a broker's way to another shard can reach at best on a machine. It
holds no Python per message, no queue, no order and no checks.

Run as a process of its own (`python -m borzoi.bench.bare_crossing CPU CPU ROUNDS DIRECTORY`),
which forks and prints the two figures.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from mmap import mmap
from pathlib import Path
from typing import Final

import xxhash

from borzoi.bench.cpus import CpuPlan
from borzoi.bench.target_rows import Run

CONNECTIONS: Final = 8
FRAME_SIZE: Final = 100_000
ROUNDS: Final = 500  # each takes one frame of every connection
SLOT_SIZE: Final = 1 << 17
ANSWER: Final = bytes(8)
TIMEOUT_S: Final = 120.0


def bare_crossing(cpus: CpuPlan, directory: Path, rounds: int = ROUNDS) -> Run:
    """CPU microseconds per frame: by one process (reference), and by two."""
    own_cpu, other_cpu = cpus.shard_cpus[:2]
    arguments = (own_cpu, other_cpu, rounds, directory)
    done = subprocess.run(
        [sys.executable, "-m", "borzoi.bench.bare_crossing", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    own, crossing = (float(word) for word in done.stdout.split())
    return Run(own, crossing)


class Bare:
    """One load: the generator's process, and here what receives its frames.

    The generator goes where the kernel wants it, as it does beside two shards on two CPUs.
    """

    def __init__(self, rounds: int, directory: str) -> None:
        self._rounds = rounds
        self._directory = directory
        self._anywhere = os.sched_getaffinity(0)
        memory = memoryview(mmap(-1, CONNECTIONS * SLOT_SIZE))
        starts = range(0, len(memory), SLOT_SIZE)
        self._slots = [memory[start : start + FRAME_SIZE] for start in starts]

    def alone(self, cpu: int) -> float:
        """CPU seconds of one process that does it all."""
        with tempfile.TemporaryFile(dir=self._directory) as file:
            return self._receive(cpu, self._appending(file.fileno()))

    def handing_over(self, cpu: int, other_cpu: int) -> float:
        """CPU seconds of two processes: here it is received, there hashed and appended."""
        ready, done, (report, reporting) = os.eventfd(0), os.eventfd(0), os.pipe()

        def append_there() -> None:
            os.sched_setaffinity(0, {other_cpu})
            began = time.thread_time()
            for _ in range(self._rounds):
                os.eventfd_read(ready)
                append()
                os.eventfd_write(done, 1)
            os.write(reporting, str(time.thread_time() - began).encode())

        def hand_over() -> None:
            os.eventfd_write(ready, 1)
            os.eventfd_read(done)

        with tempfile.TemporaryFile(dir=self._directory) as file:
            append = self._appending(file.fileno())
            child = _forked(append_there)
            spent_here = self._receive(cpu, hand_over)
            spent_there = float(os.read(report, 64))
            os.waitpid(child, 0)
        for fd in (ready, done, report, reporting):
            os.close(fd)
        return spent_here + spent_there

    def _receive(self, cpu: int, append: Callable[[], None]) -> float:
        with socket.create_server(("127.0.0.1", 0), backlog=CONNECTIONS) as listener:
            os.sched_setaffinity(0, self._anywhere)
            generator = _forked(lambda: _generate(listener.getsockname()[1], self._rounds))
            os.sched_setaffinity(0, {cpu})
            connections = [listener.accept()[0] for _ in self._slots]
        for connection in connections:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = time.thread_time()
        for _ in range(self._rounds):
            for connection, slot in zip(connections, self._slots, strict=True):
                received = 0
                while received < FRAME_SIZE:
                    received += connection.recv_into(slot[received:])
            append()
            for connection in connections:
                connection.send(ANSWER)
        spent_s = time.thread_time() - began
        os.waitpid(generator, 0)
        for connection in connections:
            connection.close()
        return spent_s

    def _appending(self, file: int) -> Callable[[], None]:
        """Returns a function that hashes all slots and appends them.

        The file's pages have been in use before: their first use costs several times what is
        measured here.
        """
        block = bytes(CONNECTIONS * FRAME_SIZE)
        for number in range(self._rounds):
            os.pwrite(file, block, number * len(block))
        position = 0

        def append() -> None:
            nonlocal position
            for slot in self._slots:
                xxhash.xxh3_64_intdigest(slot)
            position += os.pwritev(file, self._slots, position)

        return append


def _generate(port: int, rounds: int) -> None:
    frame = bytes(FRAME_SIZE)
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
    for _ in range(rounds):
        for connection in connections:
            connection.sendall(frame)
        for connection in connections:
            connection.recv(len(ANSWER), socket.MSG_WAITALL)


def _forked(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


def main() -> None:
    """Prints the CPU time per batch in us: in one process, and handed over to another."""
    cpu, other_cpu, rounds = (int(word) for word in sys.argv[1:4])
    bare = Bare(rounds, sys.argv[4])
    to_us = 1e6 / (rounds * CONNECTIONS)
    print(bare.alone(cpu) * to_us, bare.handing_over(cpu, other_cpu) * to_us)


if __name__ == "__main__":
    main()
