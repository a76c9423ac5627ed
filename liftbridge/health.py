"""gRPC health: whether the service `proto.API` is served. Needs no login."""

import asyncio
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpclib.const import Cardinality, Handler
from grpclib.server import Stream

from borzoi.liftbridge.calls import Call, framed
from borzoi.liftbridge.refusals import not_found
from borzoi.liftbridge.schema import SERVICE

SERVING: Final = 1
NOT_SERVING: Final = 2
PACKAGE: Final = "grpc.health.v1"
NAMES: Final = ("", SERVICE)


def _classes() -> tuple[Any, Any]:
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="borzoi/health.proto", package=PACKAGE, syntax="proto3"
    )
    for name, field_name, kind in (
        ("HealthCheckRequest", "service", field.TYPE_STRING),
        ("HealthCheckResponse", "status", field.TYPE_INT32),
    ):
        message = file.message_type.add(name=name)
        message.field.add(name=field_name, number=1, label=field.LABEL_OPTIONAL, type=kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    of = (f"{PACKAGE}.{name.name}" for name in file.message_type)
    request, response = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in of
    )
    return request, response


REQUEST, RESPONSE = _classes()


PARTING_TIME_S: Final = 0.2
"""So long an end waits for clients that watch and do not read."""


class Health:
    """SERVING from the start of the server until `stop`."""

    def __init__(self) -> None:
        self._stopped = asyncio.Event()
        self._watching: set[asyncio.Future[None]] = set()
        """Calls that wait for the end; done when the end was sent to their client."""

    async def stop(self) -> None:
        """The service ends, and those that watch it get to know before their connections end."""
        self._stopped.set()
        if self._watching:
            await asyncio.wait(set(self._watching), timeout=PARTING_TIME_S)

    def __mapping__(self) -> dict[str, Handler]:
        """The table, as grpclib wants it."""
        return {
            f"/{PACKAGE}.Health/Check": Handler(
                self._check, Cardinality.UNARY_UNARY, REQUEST, RESPONSE
            ),
            f"/{PACKAGE}.Health/Watch": Handler(
                self._watch, Cardinality.UNARY_STREAM, REQUEST, RESPONSE
            ),
        }

    async def _check(self, stream: Stream[Any, Any]) -> None:
        call = Call(stream)
        await self._known(call)
        await call.answer(RESPONSE(status=self._status()))

    async def _watch(self, stream: Stream[Any, Any]) -> None:
        call = Call(stream)
        await self._known(call)
        await call.begin_answer()
        await call.send(framed(RESPONSE(status=self._status()).SerializeToString()))
        sent = asyncio.get_running_loop().create_future()
        self._watching.add(sent)
        try:
            await self._stopped.wait()
            await call.send(framed(RESPONSE(status=NOT_SERVING).SerializeToString()))
        finally:
            self._watching.discard(sent)
            sent.set_result(None)

    async def _known(self, call: Call) -> None:
        name = (await call.request(REQUEST)).service
        call.close()
        if name not in NAMES:
            raise not_found(f"there is no service {name}")

    def _status(self) -> int:
        return NOT_SERVING if self._stopped.is_set() else SERVING
