"""The options of topics: their keys, what their values mean, and what they are by default.

Pure. A topic keeps the block of options that its creator gave (protocol/consensus/options.py), so
that it is returned as it came: these are explicit. For all other keys the values that hold are
derived. Compression, expiry and size are settings of every topic; as options they are another way
to give them, and an update may change them. A value may always be a text, as in the configuration.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from borzoi.protocol.commands.topics import (
    COMPRESSION_MAX,
    COMPRESSION_MIN,
    KEPT,
    CreateTopic,
    UpdateTopic,
)
from borzoi.protocol.consensus.options import pack_options, read_options, shown
from borzoi.protocol.errors import InvalidOptionValue, UnsupportedOptionKey
from borzoi.protocol.headers import HeaderField, HeaderKind, header_field, header_scalar
from borzoi.protocol.identifiers import U64_MAX
from borzoi.protocol.responses.options import OptionDescription
from borzoi.quantities import GIB, MIB, parse_duration_us, parse_size

COMPRESSION: Final = "compression_algorithm"
EXPIRY: Final = "message_expiry"
SIZE: Final = "max_topic_size"
SEGMENT_SIZE: Final = "segment_size"
DURABILITY: Final = "durability"
OFFSET_DURABILITY: Final = "consumer_offset_durability"
MESSAGES_TO_SAVE: Final = "messages_required_to_save"
SIZE_TO_SAVE: Final = "size_of_messages_required_to_save"
PREALLOCATE: Final = "preallocate_segments"
ENFORCE_FSYNC: Final = "enforce_fsync"

ALGORITHMS: Final = ("none", "gzip", "lz4", "zstd")  # from COMPRESSION_MIN on
DURABILITIES: Final = ("replicated", "persisted")
SEGMENT_SIZE_STEP: Final = 512
MESSAGES_TO_SAVE_MAX: Final = 1 << 24
ENDLESS: Final = frozenset({"never", "unlimited", "none"})
FLAGS: Final = {"true": True, "false": False}

Text = Callable[[str], int]


def _one_of(words: tuple[str, ...]) -> Callable[[HeaderField], int]:
    """The place of a word among those that are allowed."""

    def read(field: HeaderField) -> int:
        if field.kind != HeaderKind.STRING:
            raise ValueError("a text is needed")
        word = field.data.decode().strip().lower()
        if word not in words:
            raise ValueError(f"it is one of {', '.join(words)}")
        return words.index(word)

    return read


def _number(
    kind: HeaderKind, parse: Text, least: int, most: int, step: int = 1
) -> Callable[[HeaderField], int]:
    """A number in bounds, of its kind or as a text."""

    def read(field: HeaderField) -> int:
        if field.kind == HeaderKind.STRING:
            number = parse(field.data.decode().strip().lower())
        elif field.kind == kind:
            number = int(header_scalar(field))
        else:
            raise ValueError(f"a {kind.name} or a text is needed, not a {field.kind.name}")
        if not least <= number <= most or number % step:
            multiple = f", a multiple of {step}," if step > 1 else ""
            raise ValueError(f"a number{multiple} from {least} to {most} is needed")
        return number

    return read


def _flag(field: HeaderField) -> int:
    if field.kind == HeaderKind.BOOL:
        return int(field.data != b"\0")
    word = field.data.decode().strip().lower() if field.kind == HeaderKind.STRING else ""
    if word not in FLAGS:
        raise ValueError("true or false is needed")
    return FLAGS[word]


def _endless(parse: Text) -> Text:
    return lambda text: U64_MAX if text in ENDLESS else int(text) if text.isdigit() else parse(text)


class Option(NamedTuple):
    """A key: the kind of its value, how that is read, and what it is for."""

    kind: HeaderKind
    read: Callable[[HeaderField], int]
    description: str


U64: Final = HeaderKind.UINT64
OPTIONS: Final[Mapping[str, Option]] = {
    COMPRESSION: Option(
        HeaderKind.STRING, _one_of(ALGORITHMS), "codec of sealed segments: " + ", ".join(ALGORITHMS)
    ),
    EXPIRY: Option(
        U64,
        _number(U64, _endless(parse_duration_us), 0, U64_MAX),
        "microseconds until a message may be deleted; 0 is the default, the largest number never",
    ),
    SIZE: Option(
        U64,
        _number(U64, _endless(parse_size), 0, U64_MAX),
        "bytes of the topic; 0 is the default, the largest number no limit",
    ),
    SEGMENT_SIZE: Option(
        U64,
        _number(U64, parse_size, MIB, GIB, SEGMENT_SIZE_STEP),
        "bytes of a segment file, 1 MiB to 1 GiB in steps of 512",
    ),
    DURABILITY: Option(
        HeaderKind.STRING,
        _one_of(DURABILITIES),
        "kept and returned; the broker's system.partition.durability decides for all topics",
    ),
    OFFSET_DURABILITY: Option(
        HeaderKind.STRING,
        _one_of(DURABILITIES),
        "kept and returned; offsets are written before they are acknowledged",
    ),
    MESSAGES_TO_SAVE: Option(
        HeaderKind.UINT32,
        _number(HeaderKind.UINT32, int, 1, MESSAGES_TO_SAVE_MAX),
        "kept and returned; the broker's system.partition.messages_required_to_save decides",
    ),
    SIZE_TO_SAVE: Option(
        U64,
        _number(U64, parse_size, 1, GIB),
        "kept and returned; the broker's size_of_messages_required_to_save decides",
    ),
    PREALLOCATE: Option(
        HeaderKind.BOOL, _flag, "kept and returned; files grow as they are written"
    ),
    ENFORCE_FSYNC: Option(
        HeaderKind.BOOL, _flag, "the older name of durability = persisted; kept and returned"
    ),
}
CHANGEABLE: Final = (COMPRESSION, EXPIRY, SIZE)
NOT_DESCRIBED: Final = frozenset({ENFORCE_FSYNC})


def read_topic_options(block: bytes, *, update: bool = False) -> dict[str, int]:
    """The values of a block, each known and in its bounds; the error names the key."""
    values: dict[str, int] = {}
    for key, field in read_options(block).items():
        option = OPTIONS.get(key)
        if option is None:
            raise UnsupportedOptionKey(
                f"there is no option {shown(key)} of topics, there are {', '.join(OPTIONS)}"
            )
        if update and key not in CHANGEABLE:
            raise UnsupportedOptionKey(
                f"option {shown(key)} of a topic stays, only {', '.join(CHANGEABLE)} can be changed"
            )
        try:
            values[key] = option.read(field)
        except ValueError as error:  # also of bytes that are no text
            raise InvalidOptionValue(
                f"option {shown(key)} is {header_scalar(field)!r:.80}: {error}"
            ) from error
    return values


class TopicSettings(NamedTuple):
    """The settings that a command asks for, and the options that are explicit after it.

    0 is the server's default for expiry and size.
    """

    compression_algorithm: int
    message_expiry: int
    max_topic_size: int
    segment_size: int | None
    options: bytes


def settings_of_new(command: CreateTopic) -> TopicSettings:
    """What a new topic is to be; options win over the fields."""
    values = read_topic_options(command.options)
    return TopicSettings(
        _compression(values, command.compression_algorithm),
        values.get(EXPIRY, command.message_expiry),
        values.get(SIZE, command.max_topic_size),
        values.get(SEGMENT_SIZE),
        pack_options(read_options(command.options)),
    )


def settings_after(
    command: UpdateTopic, compression: int, expiry: int, size: int, explicit: bytes
) -> TopicSettings:
    """What a topic is after an update. What was set by fields is not explicit any more."""
    values = read_topic_options(command.options, update=True)
    fields = (command.compression_algorithm, command.message_expiry, command.max_topic_size)
    new_compression, new_expiry, new_size = (
        before if now == KEPT else now
        for now, before in zip(fields, (compression, expiry, size), strict=True)
    )
    kept = read_options(explicit)
    for key, now in zip(CHANGEABLE, fields, strict=True):
        if now != KEPT:
            kept.pop(key, None)
    return TopicSettings(
        _compression(values, new_compression),
        values.get(EXPIRY, new_expiry),
        values.get(SIZE, new_size),
        None,
        pack_options({**kept, **read_options(command.options)}),
    )


def _compression(values: Mapping[str, int], otherwise: int) -> int:
    return values[COMPRESSION] + COMPRESSION_MIN if COMPRESSION in values else otherwise


@lru_cache(maxsize=256)
def segment_size_of(block: bytes, default: int) -> int:
    """How large the segments of a topic with these explicit options get."""
    return read_topic_options(block).get(SEGMENT_SIZE, default) if block else default


class TopicDefaults(NamedTuple):
    """What the configuration says about topics that do not say it themselves."""

    message_expiry: int = U64_MAX
    max_topic_size: int = U64_MAX
    segment_size: int = GIB
    durability: str = DURABILITIES[0]
    messages_to_save: int = 1024
    size_to_save: int = MIB

    def values(self, compression: int, expiry: int, size: int) -> dict[str, HeaderField]:
        """All options with the values that hold for a topic with these settings."""
        algorithm = ALGORITHMS[compression - COMPRESSION_MIN]
        return {
            COMPRESSION: header_field(algorithm),
            EXPIRY: header_field(expiry, U64),
            SIZE: header_field(size, U64),
            SEGMENT_SIZE: header_field(self.segment_size, U64),
            DURABILITY: header_field(self.durability),
            OFFSET_DURABILITY: header_field(DURABILITIES[0]),
            MESSAGES_TO_SAVE: header_field(self.messages_to_save, HeaderKind.UINT32),
            SIZE_TO_SAVE: header_field(self.size_to_save, U64),
            PREALLOCATE: header_field(False),
        }

    def descriptions(self) -> tuple[OptionDescription, ...]:
        """All keys for DESCRIBE_OPTIONS, in their order."""
        defaults = self.values(COMPRESSION_MIN, self.message_expiry, self.max_topic_size)
        return tuple(
            OptionDescription(key, defaults[key].kind, defaults[key].data, option.description)
            for key, option in sorted(OPTIONS.items())
            if key not in NOT_DESCRIBED
        )


@lru_cache(maxsize=1024)
def derived_options(
    defaults: TopicDefaults, explicit: bytes, compression: int, expiry: int, size: int
) -> bytes:
    """The block of what holds for a topic without having been asked for."""
    given = read_options(explicit)
    values = defaults.values(compression, expiry, size)
    return pack_options({key: value for key, value in values.items() if key not in given})


assert len(ALGORITHMS) == COMPRESSION_MAX, "every codec has a name"
