"""S1: members of a group join, leave, are killed and pause, on both shards, under load.

    python -m tests.crash.group_churn --events 500 [--worker-kills 4] [--seed N]

Every member polls, writes down what it got, and commits it; some commit with the poll. After
every event each partition must be held exactly once. At the end nothing may have been skipped,
nothing committed may have come again, and two members may have got the same message only if
a member left in between or the revocation's time was over (group_ledger.py).
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from borzoi.protocol.commands.groups import (
    CreateConsumerGroup,
    GetConsumerGroup,
    JoinConsumerGroup,
    LeaveConsumerGroup,
)
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.offsets import GetConsumerOffset, StoreConsumerOffset
from borzoi.protocol.commands.topics import GetTopic
from borzoi.protocol.errors import (
    BrokerError,
    ConsumerGroupMemberNotFound,
    NotResolvedConsumer,
    ShardCommunicationError,
)
from borzoi.protocol.identifiers import Consumer, ConsumerKind, PollingStrategy, StrategyKind
from borzoi.protocol.responses.consumers import ConsumerGroupDetails
from borzoi.shards.process.supervisor import LIVED_LONG_S
from tests.broker import BrokerProcess, wait_for
from tests.crash.group_ledger import Commit, Delivery, GroupLedger, Span, Verdict
from tests.crash.kill_cycles import TWO_SHARDS
from tests.crash.load import PARTITIONS, STREAM, TOPIC, Producer, Worker, create_topic, wait_ready
from tests.shard_wires import connect, shard_of_connection
from tests.wire import Closed

NAME: Final = "churn"
GROUP: Final = Consumer(ConsumerKind.GROUP, NAME)
NEXT: Final = PollingStrategy(StrategyKind.NEXT)
MEMBERS_MAX: Final = 6
REVOCATION_TIMEOUT_S: Final = 0.25
POLL_COUNT: Final = 20
IDLE_S: Final = 0.002
EVENT_TIMEOUT_S: Final = 30.0
BATCH_SIZES: Final = (1, 2, 5)
SETTINGS: Final = {
    **TWO_SHARDS,
    "IGGY_CONSUMER_GROUP_REBALANCING_TIMEOUT": f"{int(REVOCATION_TIMEOUT_S * 1000)}ms",
    "IGGY_CONSUMER_GROUP_REBALANCING_CHECK_INTERVAL": "50ms",
}


@dataclass
class Summary:
    seed: int
    events: int = 0
    joins: int = 0
    leaves: int = 0
    kills: int = 0
    pauses: int = 0
    worker_kills: int = 0
    refused_commits: int = 0
    shards: frozenset[int] = frozenset()
    verdict: Verdict | None = None

    def __str__(self) -> str:
        verdict = self.verdict or Verdict(0, 0, 0)
        return (
            f"seed {self.seed}: {self.events} events ({self.joins} joins, {self.leaves} leaves, "
            f"{self.kills} members killed, {self.pauses} pauses, {self.worker_kills} workers "
            f"killed), {verdict.delivered} messages delivered, 0 skipped, {verdict.twice} "
            f"uncommitted ones came again, {self.refused_commits} late commits refused"
        )


class Member(Worker):
    """Polls, notes, commits, until it has to leave or its connection is cut."""

    def __init__(
        self, broker: BrokerProcess, ledger: GroupLedger, name: str, *, auto_commit: bool
    ) -> None:
        super().__init__(name)
        self.wire = connect(broker)
        self.shard = shard_of_connection(broker, self.wire)
        self.auto_commit = auto_commit
        self.refused = 0
        self.may_commit = threading.Event()
        self.may_commit.set()
        self.leaves_at_once = False
        self.cut = False
        self._ledger = ledger

    def enter(self) -> None:
        started = time.monotonic()
        self.wire.ask(JoinConsumerGroup(STREAM, TOPIC, NAME))
        self._ledger.joins.append(Span(started, time.monotonic()))
        self.start()

    def work(self) -> None:
        try:
            while not self.stopping:
                self._turn()
            self._leave()
        except Closed:
            # Cut by us, or its worker was killed.
            self.cut = True
        except ConsumerGroupMemberNotFound as error:
            # It moved between two shards while one of them died: the broker forgot it.
            raise AssertionError(f"{self.name} is no member any more") from error
        finally:
            self.wire.close()

    def kill(self) -> None:
        """End the connection without a word, whatever it is doing."""
        self.wire.abort()
        self.may_commit.set()

    def _turn(self) -> None:
        started = time.monotonic()
        command = PollMessages(GROUP, STREAM, TOPIC, None, NEXT, POLL_COUNT, self.auto_commit)
        try:
            polled = self.wire.ask(command)
        except ShardCommunicationError:
            self._stop_ordered.wait(IDLE_S)
            return
        finished = time.monotonic()
        if not polled.messages:
            self._stop_ordered.wait(IDLE_S)
            return
        first, last = polled.messages[0].offset, polled.messages[-1].offset
        assert [one.offset for one in polled.messages] == list(range(first, last + 1))
        partition = polled.partition_id
        delivery = Delivery(self.name, first, last, started, finished)
        self._ledger.delivered(partition, delivery)
        if self.auto_commit:
            self._ledger.committed(partition, Commit(last, finished))
            return
        self.may_commit.wait(EVENT_TIMEOUT_S)
        if self.stopping and self.leaves_at_once:
            return
        try:
            self.wire.ask(StoreConsumerOffset(GROUP, STREAM, TOPIC, partition, last))
        except NotResolvedConsumer:
            self.refused += 1
        except ShardCommunicationError:
            return
        else:
            self._ledger.committed(partition, Commit(last, time.monotonic()))

    def _leave(self) -> None:
        started = time.monotonic()
        while True:
            try:
                self.wire.ask(LeaveConsumerGroup(STREAM, TOPIC, NAME))
            except ShardCommunicationError:
                assert time.monotonic() - started < EVENT_TIMEOUT_S
                continue
            break
        self._ledger.departures.append(Span(started, time.monotonic()))


class Churn:
    """The events, one after the other."""

    def __init__(self, broker: BrokerProcess, seed: int, *, worker_kills: int) -> None:
        self._broker = broker
        self._choice = random.Random(seed)
        self._ledger = GroupLedger(REVOCATION_TIMEOUT_S)
        self._members: list[Member] = []
        self._ended: list[Member] = []
        self._wire = connect(broker)
        # A commit that was in the hands of a dying worker may or may not have happened.
        self._auto_commit = worker_kills == 0
        self._number = 0
        self._killed_at: dict[int, float] = {}
        self.summary = Summary(seed)

    def run(self, events: int, worker_kills: int) -> None:
        producer = Producer(
            self._broker, "producer", f"{self.summary.seed}", batch_sizes=BATCH_SIZES,
            reconnect=True,
        )  # fmt: skip
        producer.start()
        wait_ready(producer)
        kills_at = {events * (at + 1) // (worker_kills + 1) for at in range(worker_kills)}
        try:
            for number in range(events):
                if number in kills_at:
                    self._kill_worker()
                else:
                    self._event()
                self.summary.events += 1
                self._check_partitions()
        finally:
            producer.finish()
        self._drain()

    def _event(self) -> None:
        choices = ["join"] * (len(self._members) < MEMBERS_MAX)
        if self._members:
            choices += ["leave", "kill", "pause", "wait"]
        if len(self._members) <= 2:
            choices += ["join"] * 2
        match self._choice.choice(choices):
            case "join":
                self._join()
            case "leave":
                self._leave()
            case "kill":
                self._kill()
            case "pause":
                self._pause()
            case "wait":
                # Not for a condition: members work for a while in peace.
                time.sleep(self._choice.uniform(0, 0.05))

    def _join(self) -> None:
        self._number += 1
        auto_commit = self._auto_commit and self._choice.random() < 0.25
        name = f"member-{self._number}"
        member = Member(self._broker, self._ledger, name, auto_commit=auto_commit)
        member.enter()
        self._members.append(member)
        self.summary.joins += 1
        if member.shard is not None:
            self.summary.shards |= {member.shard}

    def _leave(self) -> None:
        member = self._members.pop(self._choice.randrange(len(self._members)))
        member.leaves_at_once = self._choice.random() < 0.5
        member.stop()
        member.may_commit.set()
        self._end(member)
        self.summary.leaves += 1

    def _kill(self) -> None:
        mortal = [one for one in self._members if not one.auto_commit]
        if not mortal:
            return
        member = self._choice.choice(mortal)
        self._members.remove(member)
        started = time.monotonic()
        member.kill()
        self._end(member)
        self._wait_for_count()
        self._ledger.departures.append(Span(started, time.monotonic()))
        self.summary.kills += 1

    def _pause(self) -> None:
        """A member pauses between a poll and the commit, longer than the others wait."""
        member = self._choice.choice(self._members)
        member.may_commit.clear()
        self._members_work()
        if len(self._members) < MEMBERS_MAX:
            self._join()
            if self._choice.random() < 0.5:
                time.sleep(REVOCATION_TIMEOUT_S * 1.5)
        member.may_commit.set()
        self.summary.pauses += 1

    def _members_work(self) -> None:
        time.sleep(self._choice.uniform(0, 0.03))

    def _kill_worker(self) -> None:
        victim = self.summary.worker_kills % 2
        # A first death is repaired at once; one soon after another is given a back-off.
        healthy_at = self._killed_at.get(victim, 0.0) + LIVED_LONG_S + 0.5
        time.sleep(max(0.0, healthy_at - time.monotonic()))
        started = time.monotonic()
        pid = self._broker.workers()[victim]
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: self._broker.workers().get(victim, pid) != pid, EVENT_TIMEOUT_S)
        cut = [member for member in self._members if member.shard == victim]
        for member in cut:
            member.may_commit.set()
            member.join(EVENT_TIMEOUT_S)
        for member in [one for one in self._members if not one.is_alive()]:
            self._members.remove(member)
            self._end(member)
        self._reconnect()
        self._wait_for_count()
        self._ledger.departures.append(Span(started, time.monotonic()))
        self._killed_at[victim] = time.monotonic()
        self.summary.worker_kills += 1

    def _end(self, member: Member) -> None:
        member.finish()
        self._ended.append(member)
        self.summary.refused_commits += member.refused

    def _reconnect(self) -> None:
        self._wire.close()
        self._wire = connect(self._broker)

    def _shares(self) -> list[tuple[int, ...]]:
        found = self._wire.ask(GetConsumerGroup(STREAM, TOPIC, NAME))
        assert isinstance(found, ConsumerGroupDetails)
        return [member.partitions for member in found.members]

    def _wait_for_count(self) -> None:
        def agreed() -> bool:
            try:
                return len(self._shares()) == len(self._members)
            except Closed:
                self._reconnect()
            except BrokerError:
                pass
            return False

        wait_for(agreed, EVENT_TIMEOUT_S)

    def _check_partitions(self) -> None:
        shares = self._shares()
        assert len(shares) == len(self._members), f"{shares} of {len(self._members)} members"
        held = sorted(partition for share in shares for partition in share)
        assert held == (list(range(PARTITIONS)) if shares else []), shares

    def _drain(self) -> None:
        """Everybody works on until everything is committed; then the books are compared."""
        if not self._members:
            self._join()
        produced = self._produced()

        wanted = {partition: count - 1 for partition, count in produced.items() if count}
        committed: dict[int, int | None] = {}

        def goes_on() -> bool:
            for member in self._members:
                if member.failure is not None:
                    raise member.failure
            before = dict(committed)
            # Not what the members noted: one that was killed may not have seen its last answer.
            committed.update((one, self._committed(one)) for one in wanted)
            return committed != before

        # However slow the machine is, it gets on.
        while committed != wanted:
            wait_for(goes_on, EVENT_TIMEOUT_S)
        sizes = [len(share) for share in self._shares()]
        assert max(sizes) - min(sizes) <= 1, f"{sizes} is no even split"
        for member in self._members:
            self._end(member)
        assert self._shares() == []
        self._wire.close()
        self.summary.verdict = self._ledger.judge(produced)

    def _committed(self, partition: int) -> int | None:
        found = self._wire.ask(GetConsumerOffset(GROUP, STREAM, TOPIC, partition))
        return None if found is None else found.stored_offset

    def _produced(self) -> dict[int, int]:
        topic = self._wire.ask(GetTopic(STREAM, TOPIC))
        return {one.id: one.messages_count for one in topic.partitions}


def run(data: Path, events: int, seed: int, worker_kills: int = 0) -> Summary:
    """So many events on a broker of its own; AssertionError if a rule is broken."""
    broker = BrokerProcess(data, SETTINGS)
    try:
        broker.start()
        with connect(broker) as wire:
            create_topic(wire)
            wire.ask(CreateConsumerGroup(STREAM, TOPIC, NAME))
        churn = Churn(broker, seed, worker_kills=worker_kills)
        try:
            churn.run(events, worker_kills)
        except BaseException as error:
            error.add_note(f"{churn.summary}")
            raise
        assert "fault of ours" not in broker.output()
        return churn.summary
    finally:
        broker.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="members of a group come and go under load")
    parser.add_argument("--events", type=int, default=500)
    parser.add_argument("--worker-kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="borzoi-churn-") as directory:
        print(
            run(Path(directory, "data"), arguments.events, arguments.seed, arguments.worker_kills)
        )


if __name__ == "__main__":
    main()
