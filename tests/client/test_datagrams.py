"""The UDP socket of the client: many datagrams in one call, and what becomes of a lost server."""

import asyncio
import socket

from borzoi.client.datagrams import Datagrams, connected_datagrams

TIMEOUT_S = 10.0
SENT = [b"a" * 1200] * 50 + [b"b" * 700]


async def exchange() -> tuple[list[bytes], list[bytes]]:
    """What a server gets of SENT, and what comes back of the same."""
    loop = asyncio.get_running_loop()
    there: list[bytes] = []
    back: list[bytes] = []
    whole = asyncio.Event()

    def arrived(datagrams: list[bytes]) -> None:
        back.extend(datagrams)
        if len(back) == len(SENT):
            whole.set()

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(TIMEOUT_S)
        opened = await connected_datagrams(loop, "127.0.0.1", server.getsockname()[1])
        datagrams = Datagrams(loop, opened, arrived, lambda error: None)
        datagrams.send(SENT)
        for _ in SENT:
            data, peer = server.recvfrom(2000)
            there.append(data)
        for data in SENT:
            server.sendto(data, peer)
        async with asyncio.timeout(TIMEOUT_S):
            await whole.wait()
        datagrams.close()
        datagrams.close()
    return there, back


def test_datagrams_arrive_as_they_were_cut() -> None:
    assert asyncio.run(exchange()) == (SENT, SENT)


def test_a_port_without_a_listener_is_noticed() -> None:
    async def ask() -> OSError:
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
        failed: asyncio.Future[OSError] = loop.create_future()
        opened = await connected_datagrams(loop, "127.0.0.1", port)
        datagrams = Datagrams(loop, opened, lambda _: None, failed.set_result)
        datagrams.send([b"hello"])
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await failed
        finally:
            datagrams.close()

    assert isinstance(asyncio.run(ask()), ConnectionRefusedError)
