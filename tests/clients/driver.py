"""One published client in a process of its own, driven by lines of JSON.

    python -I -S driver.py DIRECTORY MODULE

DIRECTORY is where the package was installed; nothing else that is installed is importable. A line
in names a number, a call and its arguments; the line out has the same number and a value or an
error. Calls run at the same time. Payloads are base64, which is what JSON can hold.

Always: partitions, streams and topics are numbered from 0 here, whatever the package says.
"""

import asyncio
import base64
import importlib
import inspect
import json
import os
import sys
from typing import Any, Final

LINE_SIZE_MAX: Final = 1 << 26
CONSUMER: Final = 1
"""What the driver polls as, with packages that ask for it. The others have a number of their own:
1 where ids count from 1, otherwise 0."""


class Driver:
    """The connections of this process by name, and what the package can do."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._connections: dict[str, Any] = {}
        self._members: dict[str, Member] = {}
        # Packages that let the caller choose the id of a stream count from 1.
        self._base = int("stream_id" in module.IggyClient.create_stream.__text_signature__)

    # The package.

    async def abilities(self) -> list[str]:
        """In the words of packages.txt."""
        module = self._module
        found = {
            "bytes": _takes_bytes(module.SendMessage),
            "confirmations": hasattr(module, "SendMessagesConfirmation"),
            "groups": hasattr(module.IggyClient, "consumer_group"),
            "headers": "user_headers" in module.SendMessage.__text_signature__,
            "partitioning": hasattr(module, "Partitioning"),
            "strings": hasattr(module.IggyClient, "from_connection_string"),
        }
        return sorted(name for name, can in found.items() if can)

    async def where(self) -> str:
        return str(self._module.__file__)

    # Connections.

    async def open(self, name: str, address: str) -> None:
        """A connection that has not logged in."""
        await self._connect(name, self._module.IggyClient(address))

    async def open_string(self, name: str, text: str) -> None:
        """A connection that logs in by itself, also after it was lost."""
        await self._connect(name, self._module.IggyClient.from_connection_string(text))

    async def _connect(self, name: str, client: Any) -> None:
        self._connections[name] = client
        await client.connect()

    async def close(self, name: str) -> None:
        """The package has no call for it: the connection ends with its object."""
        del self._connections[name]

    async def login(self, name: str, username: str, password: str) -> None:
        await self._connections[name].login_user(username, password)

    async def ping(self, name: str) -> None:
        await self._connections[name].ping()

    # Streams and topics.

    async def create_stream(self, name: str, stream: str) -> None:
        await self._connections[name].create_stream(stream)

    async def create_topic(self, name: str, stream: str, topic: str, partitions: int) -> None:
        await self._connections[name].create_topic(stream, topic, partitions)

    async def get_stream(self, name: str, stream: str | int) -> dict[str, Any] | None:
        found = await self._connections[name].get_stream(self._identifier(stream))
        if found is None:
            return None
        return {
            "id": found.id - self._base,
            "name": found.name,
            "topics": found.topics_count,
            "messages": found.messages_count,
        }

    async def get_topic(
        self, name: str, stream: str | int, topic: str | int
    ) -> dict[str, Any] | None:
        found = await self._connections[name].get_topic(
            self._identifier(stream), self._identifier(topic)
        )
        if found is None:
            return None
        # The oldest package has the number of partitions under another name.
        partitions = getattr(found, "partitions_count", None)
        return {
            "id": found.id - self._base,
            "name": found.name,
            "partitions": found.topics_count if partitions is None else partitions,
            "messages": found.messages_count,
        }

    def _identifier(self, identifier: str | int) -> str | int:
        return identifier if isinstance(identifier, str) else identifier + self._base

    # Messages.

    async def send(
        self, name: str, stream: str, topic: str, to: dict[str, Any], messages: list[dict[str, Any]]
    ) -> list[list[int]]:
        """Partition and offset of what was sent, as far as the package tells."""
        sent = await self._connections[name].send_messages(
            stream, topic, self._partitioning(to), [self._outgoing(one) for one in messages]
        )
        confirmed = getattr(sent, "confirmations", ())
        return [[one.partition_id, one.base_offset] for one in confirmed]

    def _partitioning(self, to: dict[str, Any]) -> Any:
        """`to` has one of: partition, key, balanced."""
        if "partition" in to:
            return int(to["partition"]) + self._base
        partitioning = self._module.Partitioning
        return partitioning.messages_key(to["key"]) if "key" in to else partitioning.balanced()

    def _outgoing(self, message: dict[str, Any]) -> Any:
        payload: bytes | str = base64.b64decode(message["payload"])
        if message.get("text"):
            assert isinstance(payload, bytes)
            payload = payload.decode()
        if "headers" not in message:
            return self._module.SendMessage(payload)
        return self._module.SendMessage(payload, message["headers"], message["id"])

    async def poll(
        self,
        name: str,
        stream: str,
        topic: str,
        partition: int,
        strategy: str,
        value: int | None,
        count: int,
        commit: bool,
    ) -> list[dict[str, Any]]:
        kind = getattr(self._module.PollingStrategy, strategy)
        chosen = kind() if value is None else kind(value)
        poll = self._connections[name].poll_messages
        partition += self._base
        if hasattr(self._module, "Consumer"):
            consumer = self._module.Consumer.Single(CONSUMER)
            found = await poll(
                stream,
                topic,
                consumer=consumer,
                polling_strategy=chosen,
                count=count,
                auto_commit=commit,
                partition_id=partition,
            )
        else:
            found = await poll(stream, topic, partition, chosen, count, commit)
        return [self._incoming(message) for message in found]

    async def consumer(self, name: str) -> int:
        """The consumer that polls are for, whichever connection it is."""
        del name
        return CONSUMER if hasattr(self._module, "Consumer") else self._base

    def _incoming(self, message: Any) -> dict[str, Any]:
        payload = message.payload()
        assert message.length() == len(payload)
        shown = {
            "offset": message.offset(),
            "payload": base64.b64encode(payload).decode(),
            "id": message.id(),
            "timestamp": message.timestamp(),
        }
        if hasattr(message, "partition_id"):
            shown["partition"] = message.partition_id() - self._base
        headers = message.user_headers() if hasattr(message, "user_headers") else None
        if headers is not None:
            shown["headers"] = headers.to_scalar_dict()
        return shown

    # Consumer groups.

    async def join(self, name: str, member: str, group: str, stream: str, topic: str) -> None:
        """A member that takes what it is given from now on."""
        consumer = self._connections[name].consumer_group(
            group, stream, topic, polling_strategy=self._module.PollingStrategy.Next()
        )
        if inspect.isawaitable(consumer):
            consumer = await consumer
        self._members[member] = Member(self, consumer)

    async def taken(self, member: str) -> list[dict[str, Any]]:
        """Everything that a member has taken so far."""
        return self._members[member].taken()

    async def leave(self, member: str) -> None:
        await self._members.pop(member).stop()


class Member:
    """A consumer of a group and its task."""

    def __init__(self, driver: Driver, consumer: Any) -> None:
        self._driver = driver
        self._taken: list[dict[str, Any]] = []
        self._shutdown = asyncio.Event()
        self._task = asyncio.ensure_future(consumer.consume_messages(self._take, self._shutdown))

    async def _take(self, message: Any) -> None:
        self._taken.append(self._driver._incoming(message))

    def taken(self) -> list[dict[str, Any]]:
        if self._task.done():
            self._task.result()
        return self._taken

    async def stop(self) -> None:
        self._shutdown.set()
        await self._task


def _takes_bytes(make: Any) -> bool:
    try:
        make(b"x")
    except TypeError:
        return False
    return True


async def _answer(driver: Driver, line: bytes) -> None:
    asked = json.loads(line)
    number, call = asked.pop("number"), asked.pop("call")
    try:
        shown = {"number": number, "value": await getattr(driver, call)(**asked)}
    except BaseException as error:  # a panic of the package is no Exception
        shown = {"number": number, "error": f"{type(error).__name__}: {error}"}
    sys.stdout.write(json.dumps(shown) + "\n")
    sys.stdout.flush()


async def _serve(driver: Driver) -> None:
    """Until the end of the input."""
    reader = asyncio.StreamReader(limit=LINE_SIZE_MAX)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    tasks: set[asyncio.Task[None]] = set()
    while line := await reader.readline():
        task = asyncio.create_task(_answer(driver, line))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


def main() -> None:
    directory, module = sys.argv[1:]
    sys.path.insert(0, directory)
    asyncio.run(_serve(Driver(importlib.import_module(module))))


if __name__ == "__main__":
    try:
        main()
    finally:
        # Threads of the packages ask for Python while it is ending, which aborts the process.
        sys.stdout.flush()
        os._exit(0)
