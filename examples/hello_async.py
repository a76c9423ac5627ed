"""A stream, a topic, a message in and out, with asyncio."""

import asyncio
import os

from borzoi.client import FIRST, BorzoiClient

SERVER = os.environ.get("BORZOI_SERVER", "iggy://iggy:iggy@127.0.0.1:8090")


async def main() -> None:
    """Send one message and read the first."""
    async with BorzoiClient.connect(SERVER) as client:
        if await client.get_stream("hello-async") is None:
            await client.create_stream("hello-async")
            await client.create_topic("hello-async", "world")
        await client.send_messages("hello-async", "world", ["hello"], partition_id=0)
        polled = await client.poll_messages("hello-async", "world", 0, strategy=FIRST, count=1)
        print(bytes(polled.messages[0].payload).decode())


asyncio.run(main())
