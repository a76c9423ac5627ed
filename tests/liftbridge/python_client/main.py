"""Uses the whole surface of python-liftbridge 0.0.7 against the broker at an address.

One line for each part that works, and an end with code 1 at the first that does not.
"""

import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from python_liftbridge import (  # type: ignore[import-not-found]  # it has an environment of its own
    ErrChannelClosed,
    ErrNoSuchStream,
    ErrStreamExists,
    Lift,
    Message,
    Stream,
)

RUN = time.time_ns()


def name(kind: str) -> str:
    """A name that no earlier run has used."""
    return f"py-{kind}-{RUN}"


def create(client: Any, kind: str, **options: Any) -> str:
    """A new stream; its name."""
    stream = name(kind)
    client.create_stream(Stream(subject=f"{stream}.subject", name=stream, **options))
    return stream


def taken(client: Any, stream: Any, count: int) -> list[Any]:
    """The first messages of a subscription, behind the handshake, which this client hands on."""
    found: Iterator[Any] = client.subscribe(stream)
    handshake = next(found)
    assert (handshake.offset, handshake.value) == (0, b""), handshake
    return list(islice(found, count))


def streams(client: Any) -> None:
    """Streams, and what is known of them."""
    plain = create(client, "streams", group="some-group")
    most = create(client, "most", max_replication=True)
    expect(ErrStreamExists, lambda: client.create_stream(Stream(subject="x", name=plain)))
    # Its own text for any other status cannot be formatted.
    expect(IndexError, lambda: client.create_stream(Stream(subject="a b", name=name("bad"))))
    found = client.fetch_metadata()
    shown = {one.name: one for one in found.metadata}
    assert {plain, most} <= set(shown)
    assert shown[plain].subject == f"{plain}.subject"
    assert len(found.brokers) == 1


def publishing(client: Any) -> None:
    """Publish and subscribe, from every position that this client has."""
    stream = create(client, "publish")
    for number in range(6):
        message = Message(value=str(number), stream=stream, key=f"k{number}", ack_inbox="inbox")
        given = (message.ack_policy_all, message.ack_policy_leader, message.ack_policy_none)
        client.publish(given[number % 3]())
    client.publish_to_subject(Message(value="6", subject=f"{stream}.subject"))
    expect(ErrNoSuchStream, lambda: client.publish(Message(value="x", stream=name("missing"))))
    expect(ErrNoSuchStream, lambda: taken(client, Stream(subject="x", name=name("missing")), 1))

    def of(subject: str = f"{stream}.subject") -> Any:
        return Stream(subject=subject, name=stream)

    whole = taken(client, of().start_at_earliest_received(), 7)
    assert [one.value for one in whole] == [b"%d" % number for number in range(7)]
    assert [one.offset for one in whole] == list(range(7))
    assert whole[1].key == b"k1"
    # What it calls the stream of a message is its subject.
    assert whole[1].stream == f"{stream}.subject"
    assert [one.value for one in taken(client, of().start_at_offset(4), 3)] == [b"4", b"5", b"6"]
    assert [one.value for one in taken(client, of().start_at_latest_received(), 1)] == [b"6"]
    # Its times are those of a zone that it does not know; a day covers all zones.
    long_ago = of().start_at_time_delta(timedelta(days=1))
    assert [one.offset for one in taken(client, long_ago, 7)] == list(range(7))
    since = of()
    since.start_position, since.start_timestamp = 4, int(datetime(2020, 1, 1).timestamp()) * 10**9
    assert [one.offset for one in taken(client, since, 7)] == list(range(7))


def following(client: Any) -> None:
    """New messages alone, while they come."""
    stream = create(client, "follow")
    client.publish(Message(value="old", stream=stream))
    found = client.subscribe(Stream(subject=stream, name=stream))
    next(found)
    client.publish(Message(value="new", stream=stream))
    assert next(found).value == b"new"


def closing(client: Any) -> None:
    """A subscription ends with its channel."""
    found = client.subscribe(Stream(subject="x", name=create(client, "close")))
    next(found)
    client.close()
    expect(ErrChannelClosed, lambda: next(found))


def expect(wanted: type[Exception], work: Any) -> None:
    """The error of this client that work ends with."""
    try:
        work()
    except wanted:
        return
    raise AssertionError(f"no {wanted.__name__}")


def main() -> None:
    """All parts in turn."""
    address, *authority = sys.argv[1:]
    client = Lift(ip_address=address, timeout=20, tls_cert=authority[0] if authority else None)
    for part in (streams, publishing, following, closing):
        part(client)
        print(f"ok {part.__name__}", flush=True)


if __name__ == "__main__":
    main()
