"""Histories of the lane machine against a store that is late and loses answers.

    python -m tests.cluster.simulate --histories 100000
    python -m tests.cluster.simulate --histories 3000 --mutations

A history is three nodes, one lane, and one seed that decides everything. It fails if something
acknowledged is lost, twice or in another place, if something refused is there, or if objects are
left when all is over. `--mutations` takes one rule of the machine away at a time, and counts the
histories that fail.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterable
from types import ModuleType
from typing import Final, NamedTuple

from borzoi.cluster import lane
from borzoi.cluster.keys import (
    Checkpoint,
    checkpoint_key,
    checkpoint_of,
    pack_key,
    slot_of,
    slots_prefix,
)
from borzoi.cluster.slots import FENCE_SIZE
from tests.cluster.history import History
from tests.cluster.mutations import MUTATIONS, mutated
from tests.cluster.nodes import LANE, Node, Setting
from tests.cluster.world import World

NODES: Final = 3
ENDS_AT: Final = 150.0


class Ended(NamedTuple):
    """What a history was, and what is wrong with it."""

    problems: list[str]
    stored: int
    refused: int
    openings: int
    fenced: int
    requests: int


def simulated(seed: int, machine: ModuleType = lane) -> Ended:
    """One history."""
    rng = random.Random(seed)
    world, history = World(rng), History()
    setting = Setting(world, history, machine, rng.choice((2, 3, 4)))
    nodes = [Node(setting) for _ in range(NODES)]
    _live(setting, nodes)
    for node in nodes:
        node.forget()
    last = Node(setting)
    _end(setting, last)
    nodes.append(last)
    return Ended(
        history.problems,
        history.stored_count,
        len(history.refused),
        sum(node.openings for node in nodes),
        sum(node.fenced for node in nodes),
        world.requests,
    )


def _live(setting: Setting, nodes: list[Node]) -> None:
    world = setting.world
    messages = iter(range(1, 1 << 62))
    is_over = False

    def moment(node: Node) -> None:
        is_owned = any(one.is_owner for one in nodes)
        node.act(messages.__next__, not is_owned and world.rng.random() < 0.3)
        if world.now < ENDS_AT:
            world.at(world.rng.expovariate(0.7), lambda: moment(node))

    def end() -> None:
        nonlocal is_over
        is_over = True

    for node in nodes:
        moment(node)
    world.at(ENDS_AT, end)
    world.run(lambda: is_over or bool(setting.history.problems))


def _end(setting: Setting, node: Node) -> None:
    """Open the lane while requests of the dead are on their way, and once more behind them."""
    if setting.history.problems:
        return
    world = setting.world
    _opened(setting, node)
    world.run(lambda: False)
    world.is_calm = True
    node.forget()
    _opened(setting, node)
    if setting.history.problems:
        return
    for work in (node.checkpoint, node.checkpoint, node.sweep):
        # Two checkpoints, and a slot behind the second one, as a sweep needs it.
        node.append(None, [])
        world.run(lambda: node.writer.is_idle)
        work()
        world.run(lambda: False)
    _compare(setting, node)
    left = _left_over(world, node)
    if left:
        setting.history.wrong(f"left over: {left}")


def _opened(setting: Setting, node: Node) -> None:
    done: list[bool] = []
    node.open(lambda: done.append(True))
    setting.world.run(lambda: bool(done) or bool(setting.history.problems))
    if not done and not setting.history.problems:
        setting.history.wrong("stuck: the lane does not open")
    if not setting.history.problems:
        _compare(setting, node)


def _compare(setting: Setting, node: Node) -> None:
    copy, world = node.copy, setting.world
    log = copy.whole(lambda name: world.look(pack_key(LANE, name)))
    setting.history.ends_with(log, copy.dropped, copy.length)


def _left_over(world: World, node: Node) -> list[str]:
    """Objects that nothing needs any more."""
    names = [checkpoint_of(key) for key in world.names() if "/checkpoints/" in key]
    newest = sorted(name for name in names if name is not None)[-2:]
    needed = {checkpoint_key(LANE, name) for name in newest}
    needed |= {pack_key(LANE, piece.pack) for piece in node.copy.pieces}
    return [
        key for key in world.names() if key not in needed and not _stays(world, key, newest[-1])
    ]


def _stays(world: World, key: str, newest: Checkpoint) -> bool:
    if not key.startswith(slots_prefix(LANE)):
        return False
    slot, body = slot_of(key), world.look(key)
    assert slot is not None
    assert body is not None
    return slot >= newest.next or len(body) == FENCE_SIZE


def problems_of(seed: int, machine: ModuleType) -> list[str]:
    """What is wrong with a history of a machine that may be broken."""
    try:
        return simulated(seed, machine).problems
    except AssertionError as broken:
        return [f"broken: {broken!r}"]


def failures(seeds: Iterable[int], machine: ModuleType) -> dict[int, list[str]]:
    """The histories that fail, by seed."""
    found = {seed: problems_of(seed, machine) for seed in seeds}
    return {seed: problems for seed, problems in found.items() if problems}


def run(first: int, count: int) -> bool:
    """Histories of the machine as it is; whether all of them are right."""
    began = time.monotonic()
    totals = [0] * 5
    failed = 0
    for seed in range(first, first + count):
        ended = simulated(seed)
        totals = [total + more for total, more in zip(totals, ended[1:], strict=True)]
        if ended.problems:
            failed += 1
            print(f"seed {seed}: {ended.problems[0]}", flush=True)
    stored, refused, openings, fenced, requests = totals
    took = time.monotonic() - began
    print(
        f"{count} histories from seed {first} in {took:.0f} s: {failed} failed; {stored}"
        f" acknowledged, {refused} refused, {openings} openings, {fenced} fenced writers,"
        f" {requests} requests"
    )
    return failed == 0


def run_mutations(first: int, count: int) -> bool:
    """The same histories without one rule at a time; whether each lack is noticed."""
    is_noticed = True
    for mutation in MUTATIONS:
        found = failures(range(first, first + count), mutated(mutation))
        seeds = list(found)
        is_noticed &= bool(seeds)
        kinds = sorted({problems[0].partition(":")[0] for problems in found.values()})
        print(f"{len(found):6} of {count}  {mutation.name}  first {seeds[:3]}  {kinds}", flush=True)
    return is_noticed


def main() -> None:
    """Runs histories."""
    parser = argparse.ArgumentParser(description="Histories of the lane machine.")
    parser.add_argument("--histories", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the first history")
    parser.add_argument("--mutations", action="store_true", help="one rule less each time")
    options = parser.parse_args()
    work = run_mutations if options.mutations else run
    sys.exit(0 if work(options.seed, options.histories) else 1)


if __name__ == "__main__":
    main()
