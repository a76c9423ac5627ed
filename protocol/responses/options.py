"""The answer to DESCRIBE_OPTIONS."""

from dataclasses import dataclass

from borzoi.protocol.kinds import blob32, name8, text32, u8


@dataclass(frozen=True, slots=True)
class OptionDescription:
    """A key, the kind of its value (headers.py), and the value when it is not given."""

    key: name8
    kind: u8
    default: blob32
    description: text32
