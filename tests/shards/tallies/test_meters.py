"""What a shard counts by door; names of consumers; how late its loop is."""

from time import perf_counter_ns

import pytest

from borzoi.protocol.identifiers import consumer_number
from borzoi.protocol.responses.clients import Transport
from borzoi.shards.tallies.consumer_names import ConsumerNames
from borzoi.shards.tallies.lag import LoopLag
from borzoi.shards.tallies.meters import WEB_ROUTES_MAX, Errors, Meters, RequestTimer
from borzoi.shards.tallies.traffic import Kernel, kernel_figures
from tests.shards.hand_loop import HandLoop


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
    loop = HandLoop()
    held_up_s = 0.0
    lag = LoopLag(loop.as_loop, 0.25, lambda: round((loop.now + held_up_s) * 1e9))
    lag.start()
    loop.advance(0.25)
    assert lag.times().sum_s == 0.0
    held_up_s = 0.3
    loop.advance(0.25)
    loop.advance(0.25)
    times = lag.times()
    assert times.count == 3
    assert times.sum_s == pytest.approx(0.3, abs=1e-6)
    lag.stop()
    loop.advance(1.0)
    assert lag.times().count == 3


def test_what_the_kernel_counts() -> None:
    found = kernel_figures()
    assert isinstance(found, Kernel)
    assert found.minor_faults > 0
    assert found.waits + found.preemptions > 0
