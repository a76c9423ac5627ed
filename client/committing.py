"""When a consumer commits what it has handled. Values only; consumer.py acts on them.

A message counts as handled when the application asks for the next one. What was handled and not
committed comes again after a crash; what was committed and not handled never does. So only
COMMIT_ON_POLL can lose messages, and all others can repeat some.
"""

from dataclasses import dataclass
from typing import Final

from borzoi.client.arguments import InvalidArgument


@dataclass(frozen=True, slots=True)
class CommitPolicy:
    """Several may be wanted at once, such as every 1,000 messages and every second.

    on_poll          the server commits what it gives out: cheapest, and at most once
    after_messages   after so many handled messages, 0 for never
    interval_s       when so much time has passed since the last commit, 0 for never
    on_close         when the consumer is closed; the two above do that too
    """

    on_poll: bool = False
    after_messages: int = 0
    interval_s: float = 0.0
    on_close: bool = False

    def __post_init__(self) -> None:
        if self.after_messages < 0 or self.interval_s < 0:
            raise InvalidArgument("after_messages and interval_s are 0 or more")
        if self.on_poll and (self.after_messages or self.interval_s or self.on_close):
            raise InvalidArgument("on_poll commits everything already; it stands alone")

    @property
    def commits_while_running(self) -> bool:
        """Whether commits are made before the consumer is closed."""
        return self.after_messages > 0 or self.interval_s > 0

    @property
    def commits_when_closed(self) -> bool:
        """Whether closing commits what was handled."""
        return self.on_close or self.commits_while_running


COMMIT_DISABLED: Final = CommitPolicy()  # commit() by hand
COMMIT_ON_POLL: Final = CommitPolicy(on_poll=True)
COMMIT_AFTER_EACH: Final = CommitPolicy(after_messages=1)
COMMIT_ON_CLOSE: Final = CommitPolicy(on_close=True)


def commit_after(messages: int) -> CommitPolicy:
    """Returns a policy that commits after every so many messages."""
    return CommitPolicy(after_messages=messages)


def commit_every(interval_s: float) -> CommitPolicy:
    """Returns a policy that commits in intervals."""
    return CommitPolicy(interval_s=interval_s)
