"""The client without asyncio: the same calls, and each returns when its answer is there.

    with BlockingClient.connect("iggy://iggy:iggy@127.0.0.1:8090") as client:
        client.send_messages("orders", "events", ["hello"], partition_id=0)
        with client.consumer("orders", "events", "billing") as consumer:
            for message in consumer:
                print(message.payload)

An event loop runs in a thread of its own, and heartbeats and producers go on there between the
calls. Several threads may use one client. Ctrl-C ends the call that waits. A call costs one change
of threads more than with asyncio, some 50 us: messages in large numbers go faster in batches.

Not for code that runs in an event loop already: a call there would stop that loop.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, cast

from borzoi.client.calls.offsets import DEFAULT_CONSUMER
from borzoi.client.client import BorzoiClient, OpenOptions
from borzoi.client.consumer import ConsumerOptions, MessageConsumer
from borzoi.client.outgoing import Outgoing
from borzoi.client.producer import Producer, ProducerOptions
from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.message import Message
from borzoi.protocol.responses import PolledMessages

P = ParamSpec("P")
R = TypeVar("R")


class LoopThread:
    """An event loop in a thread; `run` brings a coroutine there and its result back."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="borzoi-client", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """The result of the coroutine; it is cancelled when this thread is interrupted."""
        if self._is_own_thread():
            work.close()
            raise RuntimeError("a blocking call cannot be made by the thread that answers it")
        future: concurrent.futures.Future[R] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    @property
    def is_running(self) -> bool:
        """Whether it can still be used."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """End the thread; nothing of the client may be used any more."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _is_own_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def _serve(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()


def blocking(
    call: Callable[Concatenate[BorzoiClient, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate["BlockingClient", P], R]:
    """A method that waits for the answer of the asyncio client's method."""

    @wraps(call)
    def waits(self: "BlockingClient", *args: P.args, **kwargs: P.kwargs) -> R:
        return self.thread.run(call(self.client, *args, **kwargs))

    # For the type checker a wrapped function is an object of its own kind.
    return cast(Callable[Concatenate["BlockingClient", P], R], waits)


class BlockingConsumer:
    """Made by BlockingClient.consumer() and group_consumer(); consumer.py says what it promises."""

    def __init__(self, consumer: MessageConsumer, thread: LoopThread) -> None:
        self._consumer = consumer
        self._thread = thread

    @property
    def partition_id(self) -> int:
        """Where the message that was given out last comes from."""
        return self._consumer.partition_id

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        try:
            return self._thread.run(_next(self._consumer))
        except StopAsyncIteration:
            raise StopIteration from None

    def batches(self, *, wait: bool = True) -> Iterator[PolledMessages]:
        """The messages poll by poll; without `wait` until no partition has any more."""
        batches = self._consumer.batches(wait=wait)
        while True:
            try:
                yield self._thread.run(_next(batches))
            except StopAsyncIteration:
                return

    def commit(self) -> None:
        """Commit everything that was given out so far, whatever the policy says."""
        self._thread.run(self._consumer.commit())

    def close(self) -> None:
        """Commit what the policy wants, leave the group, end the iteration. Works twice."""
        self._thread.run(self._consumer.close())

    def __enter__(self) -> Self:
        self._thread.run(self._consumer.open())
        return self

    def __exit__(self, *failure: Any) -> None:
        self._thread.run(self._consumer.__aexit__(*failure))


class BlockingProducer:
    """Made by BlockingClient.producer(); producer.py says what it promises."""

    def __init__(self, producer: Producer, thread: LoopThread) -> None:
        self._producer = producer
        self._thread = thread

    def send(
        self,
        message: Outgoing,
        *,
        key: bytes | str | None = None,
        partition_id: int | None = None,
    ) -> None:
        """Accept one message; flush() says whether it is acknowledged."""
        self._thread.run(self._producer.send(message, key=key, partition_id=partition_id))

    def send_all(
        self,
        messages: Iterable[Outgoing],
        *,
        key: bytes | str | None = None,
        partition_id: int | None = None,
    ) -> None:
        """send() for many messages, in one change of threads. They are taken in that thread."""
        self._thread.run(self._producer.send_all(messages, key=key, partition_id=partition_id))

    def flush(self) -> None:
        """Return when everything accepted so far is acknowledged; raises what was not."""
        self._thread.run(self._producer.flush())

    def close(self) -> None:
        """flush(), and accept nothing any more. May be called twice."""
        self._thread.run(self._producer.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        self.close()


class BlockingClient:
    """Made by connect(); close() ends its thread. A `with` block does both."""

    def __init__(self, client: BorzoiClient, thread: LoopThread) -> None:
        self.client = client
        self.thread = thread

    @classmethod
    def connect(cls, address: str, **options: Unpack[OpenOptions]) -> Self:
        """Connect and log in, as BorzoiClient.open() does."""
        thread = LoopThread()
        try:
            return cls(thread.run(BorzoiClient.open(address, **options)), thread)
        except BaseException:
            thread.stop()
            raise

    @property
    def is_open(self) -> bool:
        """Whether there is a connection right now."""
        return self.client.is_open

    def close(self) -> None:
        """Close the connection and end the thread. May be called twice."""
        if self.thread.is_running:
            try:
                self.thread.run(self.client.close())
            finally:
                self.thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        self.close()

    def producer(
        self, stream: Identifier, topic: Identifier, **options: Unpack[ProducerOptions]
    ) -> BlockingProducer:
        """For sending messages one by one, as batches."""

        async def made() -> Producer:
            # In the loop that it belongs to.
            return self.client.producer(stream, topic, **options)

        return BlockingProducer(self.thread.run(made()), self.thread)

    def consumer(
        self,
        stream: Identifier,
        topic: Identifier,
        consumer: Identifier = DEFAULT_CONSUMER,
        *,
        partitions: Sequence[int] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> BlockingConsumer:
        """For iterating over the messages of these partitions, or of all."""

        async def made() -> MessageConsumer:
            return self.client.consumer(stream, topic, consumer, partitions=partitions, **options)

        return BlockingConsumer(self.thread.run(made()), self.thread)

    def group_consumer(
        self,
        stream: Identifier,
        topic: Identifier,
        group: Identifier,
        *,
        create_group: bool = True,
        **options: Unpack[ConsumerOptions],
    ) -> BlockingConsumer:
        """For iterating as a member of a group, which is created when it is not there."""

        async def made() -> MessageConsumer:
            return self.client.group_consumer(
                stream, topic, group, create_group=create_group, **options
            )

        return BlockingConsumer(self.thread.run(made()), self.thread)

    # One line per call; types and documentation are those of the asyncio client.
    change_password = blocking(BorzoiClient.change_password)
    create_consumer_group = blocking(BorzoiClient.create_consumer_group)
    create_partitions = blocking(BorzoiClient.create_partitions)
    create_personal_access_token = blocking(BorzoiClient.create_personal_access_token)
    create_stream = blocking(BorzoiClient.create_stream)
    create_topic = blocking(BorzoiClient.create_topic)
    create_user = blocking(BorzoiClient.create_user)
    delete_consumer_group = blocking(BorzoiClient.delete_consumer_group)
    delete_consumer_offset = blocking(BorzoiClient.delete_consumer_offset)
    delete_partitions = blocking(BorzoiClient.delete_partitions)
    delete_personal_access_token = blocking(BorzoiClient.delete_personal_access_token)
    delete_segments = blocking(BorzoiClient.delete_segments)
    delete_stream = blocking(BorzoiClient.delete_stream)
    delete_topic = blocking(BorzoiClient.delete_topic)
    delete_user = blocking(BorzoiClient.delete_user)
    flush_unsaved_buffer = blocking(BorzoiClient.flush_unsaved_buffer)
    get_client = blocking(BorzoiClient.get_client)
    get_clients = blocking(BorzoiClient.get_clients)
    get_cluster_metadata = blocking(BorzoiClient.get_cluster_metadata)
    get_consumer_group = blocking(BorzoiClient.get_consumer_group)
    get_consumer_groups = blocking(BorzoiClient.get_consumer_groups)
    get_consumer_offset = blocking(BorzoiClient.get_consumer_offset)
    get_me = blocking(BorzoiClient.get_me)
    get_personal_access_tokens = blocking(BorzoiClient.get_personal_access_tokens)
    get_snapshot = blocking(BorzoiClient.get_snapshot)
    get_stats = blocking(BorzoiClient.get_stats)
    get_stream = blocking(BorzoiClient.get_stream)
    get_streams = blocking(BorzoiClient.get_streams)
    get_topic = blocking(BorzoiClient.get_topic)
    get_topics = blocking(BorzoiClient.get_topics)
    get_user = blocking(BorzoiClient.get_user)
    get_users = blocking(BorzoiClient.get_users)
    join_consumer_group = blocking(BorzoiClient.join_consumer_group)
    leave_consumer_group = blocking(BorzoiClient.leave_consumer_group)
    login_user = blocking(BorzoiClient.login_user)
    login_with_personal_access_token = blocking(BorzoiClient.login_with_personal_access_token)
    logout_user = blocking(BorzoiClient.logout_user)
    ping = blocking(BorzoiClient.ping)
    poll_messages = blocking(BorzoiClient.poll_messages)
    purge_stream = blocking(BorzoiClient.purge_stream)
    purge_topic = blocking(BorzoiClient.purge_topic)
    send_messages = blocking(BorzoiClient.send_messages)
    send_prepared = blocking(BorzoiClient.send_prepared)
    store_consumer_offset = blocking(BorzoiClient.store_consumer_offset)
    update_permissions = blocking(BorzoiClient.update_permissions)
    update_stream = blocking(BorzoiClient.update_stream)
    update_topic = blocking(BorzoiClient.update_topic)
    update_user = blocking(BorzoiClient.update_user)


async def _next(items: AsyncIterator[R]) -> R:
    return await anext(items)
