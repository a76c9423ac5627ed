"""The client without asyncio has every call, with the same documentation."""

import inspect
import threading

import pytest

from borzoi.client import BlockingClient, BorzoiClient, MessageConsumer, Producer
from borzoi.client.blocking import BlockingConsumer, BlockingProducer, LoopThread

PAIRS = [
    (BorzoiClient, BlockingClient, {"open"}),
    (MessageConsumer, BlockingConsumer, {"open"}),
    (Producer, BlockingProducer, set()),
]


def public(kind: type) -> dict[str, object]:
    return {name: what for name, what in inspect.getmembers(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("waits", "blocks", "apart"), PAIRS)
def test_every_call_is_there(waits: type, blocks: type, apart: set[str]) -> None:
    assert public(waits).keys() - apart <= public(blocks).keys()


@pytest.mark.parametrize("kind", [one for pair in PAIRS for one in pair[:2]])
def test_every_public_method_says_what_it_does(kind: type) -> None:
    assert [name for name, what in public(kind).items() if not inspect.getdoc(what)] == []
    assert inspect.getdoc(kind)


def test_parameters_are_those_of_the_asyncio_client() -> None:
    for name, call in public(BorzoiClient).items():
        if inspect.iscoroutinefunction(call) and name not in ("open", "close"):
            assert inspect.signature(getattr(BlockingClient, name)) == inspect.signature(call)


def test_the_result_or_the_error_of_a_call_comes_back() -> None:
    async def double(number: int) -> int:
        if not number:
            raise ValueError("nothing to double")
        return 2 * number

    thread = LoopThread()
    assert thread.run(double(4)) == 8
    with pytest.raises(ValueError, match="nothing to double"):
        thread.run(double(0))
    thread.stop()
    thread.stop()
    assert not thread.is_running


def test_a_call_from_its_own_thread_is_refused_instead_of_waiting_for_itself() -> None:
    thread = LoopThread()

    async def inside() -> None:
        thread.run(inside())

    with pytest.raises(RuntimeError, match="cannot be made by the thread"):
        thread.run(inside())
    thread.stop()


def test_a_connection_that_fails_leaves_no_thread() -> None:
    with pytest.raises(Exception, match=r"127\.0\.0\.1"):
        BlockingClient.connect("127.0.0.1:1")
    assert "borzoi-client" not in [thread.name for thread in threading.enumerate()]
