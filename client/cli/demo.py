"""`borzoi demo`: a stream `demo` with orders and sensor data, generated at a rate.

Orders are JSON with a customer as their key, so one customer's orders are in one partition. Sensor
data are JSON, too, and drift around a mean. The numbers are random, but alike in every run.
"""

import asyncio
import json
import math
import random
import time
from collections.abc import Iterator
from typing import Any, Final

import click

from borzoi.client.cli.running import HELP, uses_client
from borzoi.client.cli.showing import Said
from borzoi.client.client import BorzoiClient
from borzoi.client.outgoing import new_message
from borzoi.terminal import say

STREAM: Final = "demo"
ORDERS: Final = "orders"
SENSORS: Final = "sensors"
PARTITIONS: Final = 4
GOODS: Final = (("tea", 3.5), ("coffee", 4.2), ("bread", 2.8), ("cheese", 6.9), ("apples", 1.9))
CUSTOMERS: Final = 50
TURN_S: Final = 0.1
SEED: Final = 7
COUNT_MAX: Final = 1_000
"""So many messages go together at most."""


@click.command(context_settings=HELP)
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    default=100.0,
    show_default=True,
    help="Messages a second, over both topics.",
)
@click.option("--count", type=click.IntRange(min=1), help="End after so many messages.")
@uses_client
async def demo(client: BorzoiClient, rate: float, count: int | None) -> Said:
    """Generate orders and sensor data in the stream `demo`, until interrupted."""
    await _prepare(client)
    given = click.get_current_context().params
    if not given["as_json"]:
        say(f"sending {rate:g} messages a second to {STREAM}/{ORDERS} and {STREAM}/{SENSORS}")
    chance = random.Random(SEED)
    sent = 0
    began = time.monotonic()
    while count is None or sent < count:
        due = int((time.monotonic() - began + TURN_S) * rate) - sent
        due = min(due, COUNT_MAX, due if count is None else count - sent)
        if due > 0:
            await _send(client, due, sent, chance)
            sent += due
        await asyncio.sleep(0 if count is not None and sent >= count else TURN_S)
    return Said(
        f"{sent} messages are in {STREAM}/{ORDERS} and {STREAM}/{SENSORS}", {"messages": sent}
    )


async def _prepare(client: BorzoiClient) -> None:
    """The stream and its topics, where they are not there yet."""
    if await client.get_stream(STREAM) is None:
        await client.create_stream(STREAM)
    for topic in (ORDERS, SENSORS):
        if await client.get_topic(STREAM, topic) is None:
            await client.create_topic(STREAM, topic, PARTITIONS)


async def _send(client: BorzoiClient, count: int, first: int, chance: random.Random) -> None:
    orders = dict[str, list[Any]]()
    readings: list[Any] = []
    for number, (key, payload) in zip(
        range(first, first + count), _payloads(first, chance), strict=False
    ):
        if number % 2:
            readings.append(payload)
        else:
            orders.setdefault(key, []).append(new_message(payload, headers={"key": key}))
    for key, messages in orders.items():
        await client.send_messages(STREAM, ORDERS, messages, key=key)
    if readings:
        await client.send_messages(STREAM, SENSORS, readings)


def _payloads(first: int, chance: random.Random) -> Iterator[tuple[str, str]]:
    """Orders and readings in turn, without end."""
    number = first
    while True:
        customer = f"customer-{chance.randrange(CUSTOMERS):02}"
        goods, price = chance.choice(GOODS)
        order = {
            "order": number,
            "customer": customer,
            "goods": goods,
            "count": 1 + chance.randrange(5),
            "price": price,
        }
        reading = {
            "sensor": f"sensor-{number // 2 % 8}",
            "celsius": round(20 + 5 * math.sin(number / 200) + chance.gauss(0, 0.3), 2),
        }
        for payload in (order, reading):
            yield customer, json.dumps(payload)
            number += 1
