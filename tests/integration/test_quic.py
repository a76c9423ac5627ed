"""What is special to QUIC: streams, long answers, lost workers, certificates, silence."""

import itertools
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.commands import GetClients, GetConsumerOffset, LoginUser
from borzoi.protocol.commands.streams import CreateStream, DeleteStream
from borzoi.protocol.framing import RESPONSE_HEADER, encode_request
from borzoi.protocol.generations import encode_command
from borzoi.protocol.responses.clients import Transport
from tests.broker import QUIC, BrokerProcess, wait_for
from tests.certificates import Authority
from tests.conftest import NewBroker
from tests.quic_socket import Quic, QuicSocket
from tests.shard_wires import ONE_SHARD, TWO_SHARDS
from tests.topics import topic_of
from tests.ways import wire_through
from tests.wire import FIRST, PING, READER, TIMEOUT_S, Wire

READ_MAX = 10_000_000
"""What official clients read of one answer."""

IDLE_TIMEOUT_S = 10.0
OK = bytes(8)
LOGIN = encode_request(Code.LOGIN_USER, encode_command(LoginUser("iggy", "iggy")))


@pytest.fixture
def quic(standing_broker: BrokerProcess) -> Iterator[Quic]:
    opened = Quic(standing_broker.quic_address, TIMEOUT_S).open()
    yield opened
    opened.close()


def status_of(answer: bytes) -> int:
    return int(RESPONSE_HEADER.unpack_from(answer)[0])


def test_streams_do_not_wait_for_one_that_is_not_whole(quic: Quic) -> None:
    late = quic.send(PING[:3], ends=False)
    assert quic.answer(quic.send(PING)) == OK
    quic.send(PING[3:], stream_id=late)
    assert quic.answer(late) == OK


def test_a_login_holds_for_all_streams(quic: Quic) -> None:
    get_me = encode_request(Code.GET_ME)
    assert status_of(quic.answer(quic.send(get_me))) == 40
    assert status_of(quic.answer(quic.send(LOGIN))) == 0
    assert status_of(quic.answer(quic.send(get_me))) == 0


def test_many_streams_at_once_are_all_answered(quic: Quic) -> None:
    streams = [quic.send(PING) for _ in range(100)]
    assert [quic.answer(one) for one in streams] == [OK] * 100


def test_an_answer_does_not_wait_for_the_end_of_a_stream(quic: Quic) -> None:
    stream = quic.send(PING, ends=False)
    assert quic.answer(stream) == OK
    # What follows is not read, and the session goes on.
    quic.send(PING, ends=False, stream_id=stream)
    quic.until(lambda: stream in quic.stopped)
    assert quic.answer(quic.send(PING)) == OK


@pytest.mark.parametrize("sent", [b"", b"\4", PING[:7], encode_request(Code.PING, b"x" * 90)[:50]])
def test_a_stream_that_ends_early_is_reset(quic: Quic, sent: bytes) -> None:
    stream = quic.send(sent)
    quic.until(lambda: stream in quic.resets)
    assert quic.resets[stream] == 0x100
    assert quic.answer(quic.send(PING)) == OK


def test_a_stream_of_one_direction_is_stopped(quic: Quic) -> None:
    stream = quic.quic.get_next_available_stream_id(is_unidirectional=True)
    quic.quic.send_stream_data(stream, PING)
    quic.until(lambda: stream in quic.stopped)
    assert quic.answer(quic.send(PING)) == OK


def test_a_closed_connection_leaves_the_client_list_at_once(standing_broker: BrokerProcess) -> None:
    with Wire(standing_broker) as other:

        def clients() -> int:
            return sum(one.transport == Transport.QUIC for one in other.ask(GetClients()))

        with wire_through(standing_broker, "quic"):
            assert clients() == 1
        wait_for(lambda: clients() == 0, 5.0)


def test_polls_are_as_long_as_clients_read_and_commit_no_more(
    standing_broker: BrokerProcess,
) -> None:
    """On both shards: the half of the partitions is polled through their owner."""
    with wire_through(standing_broker, "quic") as wire, Wire(standing_broker) as plain:
        wire.ask(CreateStream("long"))
        wire.ask(topic_of("long", 4))
        for partition in range(4):
            for _ in range(12):
                plain.append("long", "long", partition, [b"m" * 1000] * 1000)
            polled = wire.poll(
                "long", partition, strategy=FIRST, count=20_000, consumer=READER, auto_commit=True
            )
            size = sum(64 + len(one.payload) for one in polled.messages)
            assert READ_MAX - 2000 < size + 24 <= READ_MAX
            stored = wire.ask(GetConsumerOffset(READER, "long", "long", partition))
            assert stored.stored_offset == len(polled.messages) - 1
            # Over TCP all of it is one answer.
            assert (
                len(plain.poll("long", partition, strategy=FIRST, count=20_000).messages) == 12_000
            )


@pytest.mark.slow
def test_long_answers_come_while_workers_are_stopped_at_times(
    standing_broker: BrokerProcess,
) -> None:
    """What a loaded machine does: acknowledgements, credit and the end of a stream come late."""
    with wire_through(standing_broker, "quic") as wire, Wire(standing_broker) as plain:
        wire.ask(CreateStream("late"))
        wire.ask(topic_of("late", 2))
        for partition in range(2):
            for _ in range(12):
                plain.append("late", "late", partition, [b"m" * 1000] * 1000)
        with stopped_at_times(standing_broker):
            for number in range(10):
                polled = wire.poll("late", number % 2, strategy=FIRST, count=20_000)
                assert len(polled.messages) * 1064 > READ_MAX - 4000
        wire.ask(DeleteStream("late"))


@pytest.mark.slow
def test_clients_notice_the_death_of_their_worker_and_come_back(new_broker: NewBroker) -> None:
    broker = new_broker(**TWO_SHARDS, **QUIC)
    with wire_through(broker, "quic") as wire:
        wire.ask(CreateStream("kept"))
        wire.ask(topic_of("kept", 2))
        for number in range(20):
            wire.append("kept", "kept", number % 2, [f"{number}".encode()])
        assert isinstance(wire.socket, QuicSocket)
        below = wire.socket.below
        pid = broker.workers()[0]
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: _opens(broker))
        # The successor is there: it says at once that it does not know the connection.
        below.send(PING)
        with pytest.raises(ConnectionResetError):
            below.until(lambda: False, IDLE_TIMEOUT_S / 2)
    with wire_through(broker, "quic") as again:
        for partition in range(2):
            found = again.payloads("kept", partition)
            assert found == [f"{number}".encode() for number in range(partition, 20, 2)]


@contextmanager
def stopped_at_times(broker: BrokerProcess) -> Iterator[None]:
    """Its workers stand still for a tenth of a second, one after the other, again and again."""
    over = threading.Event()

    def stop() -> None:
        for pid in itertools.cycle(broker.workers().values()):
            os.kill(pid, signal.SIGSTOP)
            over.wait(0.1)
            os.kill(pid, signal.SIGCONT)
            if over.wait(0.02):
                return

    stopping = threading.Thread(target=stop)
    stopping.start()
    try:
        yield
    finally:
        over.set()
        stopping.join()


def _opens(broker: BrokerProcess) -> bool:
    opened = Quic(broker.quic_address, 2.0)
    try:
        opened.open()
    except (TimeoutError, ConnectionError):
        return False
    finally:
        opened.close()
    return True


@pytest.mark.slow
def test_a_certificate_is_renewed_without_a_lost_connection(
    new_broker: NewBroker, tmp_path: Path
) -> None:
    first, second = Authority(), Authority()
    files = first.issue(tmp_path)
    settings = {
        "IGGY_QUIC_CERTIFICATE_SELF_SIGNED": "false",
        "IGGY_QUIC_CERTIFICATE_CERT_FILE": str(files.cert),
        "IGGY_QUIC_CERTIFICATE_KEY_FILE": str(files.key),
    }
    broker = new_broker(**ONE_SHARD, **QUIC, **settings)
    old = Quic(broker.quic_address, TIMEOUT_S, ca=first.pem).open()
    assert old.answer(old.send(PING)) == OK
    second.issue(tmp_path)
    os.kill(broker.pid, signal.SIGHUP)

    def shows_the_new_one() -> bool:
        opened = Quic(broker.quic_address, 5.0, ca=second.pem)
        try:
            return opened.open().is_open
        except ConnectionError:
            return False
        finally:
            opened.close()

    wait_for(shows_the_new_one)
    assert old.answer(old.send(PING)) == OK
    old.close()
    stranger = Quic(broker.quic_address, 5.0, ca=first.pem)
    with pytest.raises(ConnectionError):
        stranger.open()
    stranger.close()


@pytest.mark.slow
def test_silence_ends_a_connection_unless_it_is_kept_alive(new_broker: NewBroker) -> None:
    broker = new_broker(
        **ONE_SHARD,
        **QUIC,
        IGGY_QUIC_MAX_IDLE_TIMEOUT="4 s",
        IGGY_QUIC_KEEP_ALIVE_INTERVAL="1 s",
    )
    with wire_through(broker, "quic") as wire:
        assert isinstance(wire.socket, QuicSocket)
        below = wire.socket.below
        # The broker pings, the client only acknowledges.
        with pytest.raises(TimeoutError):
            below.until(lambda: False, 6.0)
        assert wire.is_in_step()
        with Wire(broker) as other:
            # A client that acknowledges nothing is gone.
            wait_for(lambda: len(other.ask(GetClients())) == 1)
