"""What a shard counts by door; names of consumers; how late its loop is."""

import asyncio
import time
from time import perf_counter_ns

from borzoi.protocol.identifiers import consumer_number
from borzoi.protocol.responses.clients import Transport
from borzoi.shards.tallies.consumer_names import ConsumerNames
from borzoi.shards.tallies.lag import LoopLag
from borzoi.shards.tallies.meters import WEB_ROUTES_MAX, Errors, Meters, RequestTimer
from borzoi.shards.tallies.traffic import Kernel, kernel_figures


def test_doors_count_apart() -> None:
    meters = Meters()
    for kind, times in ((Transport.TCP, 2), (Transport.WEBSOCKET, 1)):
        timer = RequestTimer(meters.door(kind))
        for _ in range(times):
            timer.begin(101, 10)
            timer.polled(5, 50)
            timer.end()
    meters.errors["tcp", 40] += 1
    found = {(one.door, one.command): (one.times.count, one.bytes) for one in meters.times()}
    assert found == {("tcp", "send_messages"): (2, 20), ("websocket", "send_messages"): (1, 10)}
    assert meters.polled() == {"tcp": (10, 100), "websocket": (5, 50)}
    assert meters.failed() == [Errors("tcp", 40, 1)]


def test_requests_over_http_count_by_the_pattern_of_their_path() -> None:
    meters = Meters()
    meters.web_request("GET /streams", perf_counter_ns(), 0, 200)
    meters.web_request("", perf_counter_ns(), 7, 404)
    found = {one.command: one.bytes for one in meters.times()}
    assert found == {"GET /streams": 0, "other": 7}
    assert meters.failed() == [Errors("http", 404, 1)]
    for number in range(2 * WEB_ROUTES_MAX):
        meters.web_request(f"GET /{number}", perf_counter_ns(), 0, 200)
    assert len(meters.times()) <= WEB_ROUTES_MAX + 1


def test_a_consumer_has_the_name_it_gave() -> None:
    names = ConsumerNames(2)
    assert names.number_of(7) == 7
    for name in ("a", "b", "c", "b"):
        assert names.number_of(name) == consumer_number(name)
    assert names.first(9) == {consumer_number("c"): "c", consumer_number("b"): "b"}
    assert names.first(1) == {consumer_number("c"): "c"}
    nameless = ConsumerNames(0)
    assert nameless.number_of("a") == consumer_number("a")
    assert nameless.first(9) == {}


def test_a_loop_that_is_held_up_is_late() -> None:
    async def held_up() -> LoopLag:
        lag = LoopLag(asyncio.get_running_loop(), 0.01)
        lag.start()
        await asyncio.sleep(0.005)
        time.sleep(0.3)  # noqa: ASYNC251 - this is what holds it up
        # Its round was due long before this one.
        await asyncio.sleep(0.001)
        lag.stop()
        return lag

    times = asyncio.run(held_up()).times()
    assert times.count == 1
    assert times.sum_s > 0.2


def test_what_the_kernel_counts() -> None:
    found = kernel_figures()
    assert isinstance(found, Kernel)
    assert found.minor_faults > 0
    assert found.waits + found.preemptions > 0
