"""PublishAsync: one call with many messages in flight, and an answer to each.

Whatever has arrived is taken at once. Its messages are sorted by partition, in their order, and
each partition gets one batch per turn (appending.py). Answers are collected and leave in one
write. Reading stops while too much is in flight, so a client is slowed down by flow control.

Always: a message that is refused costs no other one anything; the call goes on.
"""

import asyncio
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

from borzoi.liftbridge.acks import AckForm, async_failure, times_field
from borzoi.liftbridge.bridge import Route
from borzoi.liftbridge.calls import PREFIX, Call
from borzoi.liftbridge.ports import PortError, User
from borzoi.liftbridge.publishing import (
    ANY_OFFSET,
    NONE_REFUSED,
    Publishing,
    new_inbox,
    stored_for,
)
from borzoi.liftbridge.refusals import ASYNC_CODES, exhausted
from borzoi.liftbridge.schema import AckPolicy, AsyncError, PublishRequest
from borzoi.liftbridge.stored import TooLarge

IN_FLIGHT_MAX: Final = 16_384
"""Messages of one call that are not answered yet."""

ANSWERS_SIZE_MAX: Final = 256 * 1024
"""Bytes of answers that the client has not taken; more messages are read when it has."""

ANSWERS_TIME_MAX_S: Final = 60.0
"""A client that takes no answers for so long loses its call."""

PARTING_TIME_S: Final = 5.0
"""How long a call that its client has ended waits for the last answers."""


@dataclass(slots=True)
class Part:
    """Messages of one partition, in their order; `size` is what they took as they came."""

    route: Route
    messages: list[bytes] = field(default_factory=list)
    correlation_ids: list[str] = field(default_factory=list)
    policies: list[int] = field(default_factory=list)
    size: int = 0


class AsyncCall:
    """One call of PublishAsync."""

    def __init__(self, publishing: Publishing, call: Call, user: User) -> None:
        self._publishing = publishing
        self._call = call
        self._user = user
        self._now_ns = publishing.bridge.store.now_ns
        self._inbox = new_inbox()
        self._in_flight = 0
        self._answers: list[bytes] = []
        self._answers_size = 0
        self._changed = asyncio.Event()
        self._forms: dict[tuple[str, int, int], tuple[Route, AckForm]] = {}
        self._at: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serve the call until its client ends it and has its answers."""
        await self._call.begin_answer()
        writing = asyncio.create_task(self._write())
        try:
            while taken := await self._call.take():
                await self._publish_all(*taken)
                while self._is_full() and not writing.done():
                    await self._wait_for_room()
                if writing.done():
                    writing.result()
            async with asyncio.timeout(PARTING_TIME_S):
                while self._in_flight or self._answers_size:
                    await self._wait()
        except TimeoutError:
            pass  # as the reference: what is not answered by now is not
        finally:
            writing.cancel()
            for task in self._at:
                task.cancel()

    def _is_full(self) -> bool:
        if self._in_flight > IN_FLIGHT_MAX or self._answers_size > ANSWERS_SIZE_MAX:
            return True
        return self._call.is_crowded and bool(self._in_flight or self._answers_size)

    async def _wait_for_room(self) -> None:
        try:
            async with asyncio.timeout(ANSWERS_TIME_MAX_S):
                await self._wait()
        except TimeoutError:
            if self._answers_size:
                raise exhausted(f"no answers were taken for {ANSWERS_TIME_MAX_S:.0f} s") from None

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    async def _publish_all(self, data: bytes, bounds: list[tuple[int, int]]) -> None:
        received = self._now_ns()
        now_us = received // 1000
        parts: dict[tuple[str, int], Part] = {}
        stored = 0
        for start, end in bounds:
            try:
                request = PublishRequest.FromString(data[start:end])
            except Exception as error:  # protobuf's own, another one per implementation
                self._refuse("", AsyncError.BAD_REQUEST, f"no PublishRequest: {error}")
                continue
            key = (request.stream, request.partition)
            try:
                part = parts.get(key)
                if part is None:
                    part = parts[key] = await self._new_part(request)
                checks = part.route.view.checks_offsets
                if checks and request.ackPolicy == AckPolicy.NONE:
                    raise ValueError(NONE_REFUSED)
                message = stored_for(part.route, request, now_us)
            except (PortError, TooLarge) as error:
                self._refuse(request.correlationId, ASYNC_CODES[type(error)], str(error))
                continue
            except ValueError as error:
                self._refuse(request.correlationId, AsyncError.BAD_REQUEST, str(error))
                continue
            if checks and request.expectedOffset != ANY_OFFSET:
                self._append_at(part.route, request, message, received, end - start)
                stored += end - start
            else:
                part.size += end - start
                part.messages.append(message)
                part.correlation_ids.append(request.correlationId)
                part.policies.append(request.ackPolicy)
        for part in parts.values():
            if part.messages:
                self._append(part, received)
                stored += part.size
        # The rest was refused; what is stored counts until it is.
        self._call.let_go(bounds[-1][1] - bounds[0][0] + PREFIX.size - stored)

    async def _new_part(self, request: Any) -> Part:
        if not request.stream:
            raise ValueError("No stream provided")
        publishing = self._publishing
        route = publishing.route(self._user, request.stream, request.partition)
        return Part(await publishing.resumed(self._user, route))

    def _append(self, part: Part, received: int) -> None:
        publishing, route = self._publishing, part.route
        if route.copies:
            for message in part.messages:
                publishing.copy(self._user, route, message)
        count = len(part.messages)
        self._in_flight += count

        def appended(first: int, error: PortError | None) -> None:
            self._in_flight -= count
            self._call.let_go(part.size)
            if error is not None:
                for correlation_id in part.correlation_ids:
                    self._refuse(correlation_id, ASYNC_CODES[type(error)], str(error))
            else:
                self._acknowledge(part, first, times_field(received, self._now_ns()))
            self._changed.set()

        syncs = AckPolicy.ALL in part.policies
        publishing.appending.put(self._user, route, part.messages, appended, syncs=syncs)

    def _acknowledge(self, part: Part, first: int, times: bytes) -> None:
        """Answer messages that are stored; those of one policy that lie together at once."""
        at = 0
        for policy, some in groupby(part.policies):
            end = at + len(list(some))
            if policy != AckPolicy.NONE:
                form = self._form(part.route, policy)
                self._answer(form.responses(first + at, part.correlation_ids[at:end], times))
            at = end

    def _append_at(
        self, route: Route, request: Any, message: bytes, received: int, size: int
    ) -> None:
        """Optimistic concurrency: each message for itself, and still in their order."""
        self._in_flight += 1
        task = asyncio.create_task(self._appended_at(route, request, message, received))
        task.add_done_callback(lambda _: self._call.let_go(size))
        self._at.add(task)
        task.add_done_callback(self._at.discard)

    async def _appended_at(self, route: Route, request: Any, message: bytes, received: int) -> None:
        expected, policy = request.expectedOffset, request.ackPolicy
        try:
            await self._publishing.appending.put_at(
                self._user, route, message, expected, syncs=policy == AckPolicy.ALL
            )
        except PortError as error:
            self._refuse(request.correlationId, ASYNC_CODES[type(error)], str(error))
        else:
            times = times_field(received, self._now_ns())
            form = self._form(route, policy)
            self._answer(form.responses(expected, [request.correlationId], times))
        finally:
            self._in_flight -= 1
            self._changed.set()

    def _form(self, route: Route, policy: int) -> AckForm:
        key = (route.view.name, route.partition, policy)
        known = self._forms.get(key)
        if known is None or known[0] is not route:
            known = self._forms[key] = (route, AckForm(route, self._inbox, policy))
        return known[1]

    def _refuse(self, correlation_id: str, code: int, text: str) -> None:
        self._answer(async_failure(correlation_id, code, text))

    def _answer(self, framed: bytes) -> None:
        self._answers.append(framed)
        self._answers_size += len(framed)
        self._call.hold(len(framed))
        self._changed.set()

    async def _write(self) -> None:
        while True:
            while not self._answers:
                await self._wait()
            data = b"".join(self._answers)
            self._answers.clear()
            await self._call.send(data)
            self._answers_size -= len(data)
            self._call.let_go(len(data))
            self._changed.set()
