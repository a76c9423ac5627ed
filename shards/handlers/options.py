"""Options of what a command creates or changes: refused ones are named in the log.

An answer with 4041 or 4042 has no room for the key that it is about.
"""

import logging
from typing import Final

from borzoi.protocol.commands.topics import CreateTopic, UpdateTopic
from borzoi.protocol.consensus.options import read_options, shown
from borzoi.protocol.errors import InvalidOptionValue, UnsupportedOptionKey
from borzoi.shards.decisions.decide import check_arguments
from borzoi.shards.handlers.caller import Caller

LOG: Final = logging.getLogger(__name__)


def check_topic(caller: Caller, command: CreateTopic | UpdateTopic) -> None:
    """Check the arguments, options included."""
    try:
        check_arguments(command)
    except (UnsupportedOptionKey, InvalidOptionValue) as error:
        LOG.info("client %d: topic %s is refused: %s", caller.client_id, shown(command.name), error)
        raise


def refuse_options(caller: Caller, what: str, block: bytes) -> None:
    """Streams and users have no options: UnsupportedOptionKey for any."""
    if not block:
        return
    keys = ", ".join(shown(key) for key in list(read_options(block))[:NAMED_MAX])
    error = UnsupportedOptionKey(f"{what} have no options, {keys} cannot be given")
    LOG.info("client %d: %s", caller.client_id, error)
    raise error


NAMED_MAX: Final = 8
"""Keys that a line of the log names."""
