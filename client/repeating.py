"""What may be asked again when the connection broke before the answer came.

The server may have carried out a request whose answer is lost. So it is repeated only if doing
it twice leaves what doing it once would have left: questions, and settings of an exact value. A
poll that takes the next messages and commits them is not among them: the second one would skip
what the first one found. Nor is a send, unless the caller says that duplicates are fine.
"""

from typing import Final

from borzoi.protocol import commands
from borzoi.protocol.commands import Command
from borzoi.protocol.identifiers import StrategyKind

REPEATABLE: Final[frozenset[type[Command]]] = frozenset(
    {
        commands.Ping,
        commands.GetStats,
        commands.GetSnapshot,
        commands.GetClusterMetadata,
        commands.GetMe,
        commands.GetClient,
        commands.GetClients,
        commands.GetUser,
        commands.GetUsers,
        commands.LoginUser,
        commands.LoginWithPersonalAccessToken,
        commands.LogoutUser,
        commands.GetPersonalAccessTokens,
        commands.FlushUnsavedBuffer,
        commands.GetConsumerOffset,
        commands.StoreConsumerOffset,
        commands.GetStream,
        commands.GetStreams,
        commands.GetTopic,
        commands.GetTopics,
        commands.GetConsumerGroup,
        commands.GetConsumerGroups,
        commands.JoinConsumerGroup,
    }
)


def is_repeatable(command: Command) -> bool:
    """Returns whether asking twice has the effect of asking once."""
    if isinstance(command, commands.PollMessages):
        return not (command.auto_commit and command.strategy.kind == StrategyKind.NEXT)
    return type(command) in REPEATABLE
