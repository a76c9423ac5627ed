"""What a call is refused with: status and text, as the reference server has them."""

from typing import Final

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from borzoi.liftbridge import ports
from borzoi.liftbridge.schema import AckError, AsyncError
from borzoi.liftbridge.stored import TooLarge

STATUSES: Final[dict[type[Exception], Status]] = {
    ports.NotAllowed: Status.PERMISSION_DENIED,
    ports.AlreadyThere: Status.ALREADY_EXISTS,
    ports.PlaceGone: Status.NOT_FOUND,
    ports.ReadOnly: Status.FAILED_PRECONDITION,
    ports.WrongOffset: Status.UNKNOWN,
    ports.NoGroup: Status.NOT_FOUND,
    ports.NotAMember: Status.FAILED_PRECONDITION,
    ports.OutdatedMember: Status.FAILED_PRECONDITION,
    ports.Unavailable: Status.UNAVAILABLE,
    ports.Failed: Status.INTERNAL,
    TooLarge: Status.INVALID_ARGUMENT,
}

ASYNC_CODES: Final[dict[type[Exception], int]] = {
    ports.NotAllowed: AsyncError.PERMISSION_DENIED,
    ports.PlaceGone: AsyncError.NOT_FOUND,
    ports.ReadOnly: AsyncError.READONLY,
    ports.WrongOffset: AsyncError.INCORRECT_OFFSET,
    ports.Unavailable: AsyncError.INTERNAL,
    ports.Failed: AsyncError.INTERNAL,
    TooLarge: AsyncError.BAD_REQUEST,
}

ACK_ERRORS: Final[dict[type[Exception], int]] = {
    ports.WrongOffset: AckError.INCORRECT_OFFSET,
    TooLarge: AckError.TOO_LARGE,
}


def refusal(error: Exception) -> GRPCError:
    """What a call ends with after such an error."""
    return GRPCError(STATUSES[type(error)], str(error))


def invalid(text: str) -> GRPCError:
    """The request says something that cannot be."""
    return GRPCError(Status.INVALID_ARGUMENT, text)


def not_found(text: str) -> GRPCError:
    """What the request names is not there."""
    return GRPCError(Status.NOT_FOUND, text)


def precondition(text: str) -> GRPCError:
    """It is there, in another state than the request needs."""
    return GRPCError(Status.FAILED_PRECONDITION, text)


def exhausted(text: str) -> GRPCError:
    """A subscription has delivered all it was asked for."""
    return GRPCError(Status.RESOURCE_EXHAUSTED, text)


def internal(text: str) -> GRPCError:
    """It should have worked."""
    return GRPCError(Status.INTERNAL, text)
