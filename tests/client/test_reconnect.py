"""The delays of a reconnect, and which requests may be asked twice."""

from itertools import pairwise

import pytest

from borzoi.client import NEXT, InvalidArgument, Reconnect, from_offset
from borzoi.client.repeating import REPEATABLE, is_repeatable
from borzoi.protocol import commands
from borzoi.protocol.classic import ROWS
from borzoi.protocol.commands import PollMessages
from borzoi.protocol.identifiers import Consumer, ConsumerKind, PollingStrategy

# Asked twice, these would do something twice.
ONCE_ONLY = {
    commands.CreateUser,
    commands.DeleteUser,
    commands.UpdateUser,
    commands.UpdatePermissions,
    commands.ChangePassword,
    commands.CreatePersonalAccessToken,
    commands.DeletePersonalAccessToken,
    commands.PollMessages,  # decided by its fields
    commands.SendMessages,
    commands.DeleteConsumerOffset,
    commands.CreateStream,
    commands.DeleteStream,
    commands.UpdateStream,
    commands.PurgeStream,
    commands.CreateTopic,
    commands.DeleteTopic,
    commands.UpdateTopic,
    commands.PurgeTopic,
    commands.CreatePartitions,
    commands.DeletePartitions,
    commands.DeleteSegments,
    commands.CreateConsumerGroup,
    commands.DeleteConsumerGroup,
    commands.LeaveConsumerGroup,
}


def test_delays_double_up_to_the_largest() -> None:
    reconnect = Reconnect(attempts_max=6, delay_min_s=0.1, delay_max_s=1)
    assert list(reconnect.delays(lambda: 1.0)) == pytest.approx([0.1, 0.2, 0.4, 0.8, 1, 1])


def test_chance_takes_off_at_most_half() -> None:
    reconnect = Reconnect(attempts_max=50)
    shortest = list(reconnect.delays(lambda: 0.0))
    longest = list(reconnect.delays(lambda: 1.0))
    assert len(shortest) == len(longest) == 50
    assert shortest == pytest.approx([delay / 2 for delay in longest])
    assert all(first <= second for first, second in pairwise(longest))
    assert longest[-1] == reconnect.delay_max_s


@pytest.mark.parametrize(
    "settings",
    [{"attempts_max": 0}, {"delay_min_s": 0}, {"delay_min_s": 3.0}, {"delay_max_s": -1.0}],
)
def test_policies_that_make_no_sense(settings: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument):
        Reconnect(**settings)  # type: ignore[arg-type]  # an int is among them


def test_every_command_is_judged() -> None:
    assert not REPEATABLE & ONCE_ONLY
    assert {row.command for row in ROWS.values()} == REPEATABLE | ONCE_ONLY


@pytest.mark.parametrize(
    ("strategy", "auto_commit", "repeatable"),
    [
        (NEXT, False, True),
        (NEXT, True, False),
        (from_offset(5), True, True),
        (from_offset(5), False, True),
    ],
)
def test_polls_that_take_and_commit_are_not_repeated(
    strategy: PollingStrategy, auto_commit: bool, repeatable: bool
) -> None:
    consumer = Consumer(ConsumerKind.CONSUMER, 1)
    command = PollMessages(consumer, 0, 0, 0, strategy, 1, auto_commit)
    assert is_repeatable(command) is repeatable
