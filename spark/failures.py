"""What this source says when it cannot go on.

Spark keeps the text of an exception and loses its class on the way from Python to the JVM and back.
So each text begins with a code that programs may look for. The codes are part of the interface:
they never change.
"""

from typing import ClassVar


class IggyError(Exception):
    """Of this data source; `code` is the first word of its text."""

    code: ClassVar[str] = "IGGY_ERROR"

    def __init__(self, detail: str) -> None:
        super().__init__(f"{self.code}: {detail}")


class InvalidOption(IggyError):
    """An option that is unknown, missing, malformed or contradicts another."""

    code = "IGGY_INVALID_OPTION"


class InvalidSchema(IggyError):
    """A schema that cannot be read or written."""

    code = "IGGY_INVALID_SCHEMA"


class NotFound(IggyError):
    """The stream, topic or partition is not there."""

    code = "IGGY_NOT_FOUND"


class DataLoss(IggyError):
    """What was to be read is not there any more."""

    code = "IGGY_DATA_LOSS"


class OffsetOutOfRange(IggyError):
    """An offset or time that was asked for lies outside of the partition."""

    code = "IGGY_OFFSET_OUT_OF_RANGE"


class Unreachable(IggyError):
    """The broker could not be reached, or did not answer, as often as it was tried."""

    code = "IGGY_UNREACHABLE"


class LoginFailed(IggyError):
    """The broker is there and does not take this login."""

    code = "IGGY_LOGIN_FAILED"


class NotAllowed(IggyError):
    """The user may not do this."""

    code = "IGGY_NOT_ALLOWED"


class SegmentsUnusable(IggyError):
    """Segments were to be read from a directory that is not there, or not of this broker."""

    code = "IGGY_SEGMENTS_UNUSABLE"


class InvalidRow(IggyError):
    """A row that cannot become a message."""

    code = "IGGY_INVALID_ROW"


class JavaMissing(IggyError):
    """Spark needs a Java that is not here."""

    code = "IGGY_JAVA_MISSING"
