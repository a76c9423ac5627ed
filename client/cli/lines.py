"""The lines of standard input as they come, in chunks of bounded size.

A thread reads, because a read of a terminal or a pipe cannot be given up. It is a daemon: Ctrl-C
ends the program while it waits. It reads on only when its chunk was taken, so memory stays at three
chunks and one line. A line ends at its line feed, and its bytes are left as they are.
"""

import asyncio
import io
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import BinaryIO, Final

import click

CHUNK_SIZE: Final = 256 * 1024
LINE_SIZE_MAX: Final = 64_000_000
"""The largest payload of a message."""


async def lines_of(stream: BinaryIO) -> AsyncIterator[list[bytes]]:
    """Complete lines, as many as have come together; the last one may lack its line feed."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[list[bytes] | Exception | None] = asyncio.Queue(maxsize=2)

    def put(chunk: list[bytes] | Exception | None) -> None:
        asyncio.run_coroutine_threadsafe(chunks.put(chunk), loop).result()

    def read() -> None:
        try:
            for chunk in _chunks(_reading(stream)):
                put(chunk)
            put(None)
        except (OSError, click.ClickException) as error:
            put(error)

    threading.Thread(target=read, name="standard input", daemon=True).start()
    while True:
        chunk = await chunks.get()
        if isinstance(chunk, Exception):
            raise chunk
        if chunk is None:
            return
        yield chunk


def _reading(stream: BinaryIO) -> Callable[[int], bytes]:
    """Reads what is there, past the buffer of a file: its lock would outlive Ctrl-C."""
    try:
        return partial(os.read, stream.fileno())
    except io.UnsupportedOperation:
        return stream.read


def _chunks(read: Callable[[int], bytes]) -> Iterator[list[bytes]]:
    """What each read completes. A line that goes on is gathered in parts, not copied each time."""
    begun: list[bytes] = []
    size = 0
    while data := read(CHUNK_SIZE):
        *complete, rest = data.split(b"\n")
        if complete:
            complete[0] = b"".join((*begun, complete[0]))
            begun, size = [], 0
            yield complete
        if rest:
            begun.append(rest)
            size += len(rest)
            if size > LINE_SIZE_MAX:
                raise click.ClickException(
                    f"a line of standard input is longer than {LINE_SIZE_MAX} bytes, the largest"
                    " message; send it with --file, in parts"
                )
    if begun:
        yield [b"".join(begun)]
