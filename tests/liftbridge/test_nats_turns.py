"""A flood of small messages from NATS leaves the loop its turns."""

import asyncio
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from borzoi.liftbridge import nats_link
from borzoi.liftbridge.nats_link import BITE_SIZE, TURN_S, LinkCounts, _Reader

MESSAGES = 5000


@pytest.mark.parametrize("cut", [1, 7, 1000, 1 << 20])
def test_others_have_their_turn_between_messages(monkeypatch: pytest.MonkeyPatch, cut: int) -> None:
    ticks = count(step=TURN_S / 2)
    monkeypatch.setattr(nats_link, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    data = b"".join(b"MSG s 1 %d\r\n%d\r\n" % (len(str(n)), n) for n in range(MESSAGES))
    got: list[bytes] = []
    turns = 0

    async def process(_sid: int, _subject: bytes, _reply: bytes, data: bytes, _head: Any) -> None:
        got.append(data)

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def work() -> None:
        reader = _Reader(LinkCounts())
        monkeypatch.setattr(reader, "_process_msg", process)
        running = asyncio.create_task(other())
        for at in range(0, len(data), cut):
            await reader._ps.parse(data[at : at + cut])
        running.cancel()

    asyncio.run(work())
    assert got == [b"%d" % n for n in range(MESSAGES)]
    if cut > BITE_SIZE:
        assert turns >= len(data) // BITE_SIZE // 3
