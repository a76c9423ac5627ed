"""What surrounds carrying out a request: a guard that refuses some, a clock for slow ones."""

from collections.abc import Callable

from borzoi.router.buffer import Buffer
from borzoi.shards.faults.poison import Guard
from borzoi.shards.loop.slow_requests import Course
from borzoi.shards.serving.numbered import CarryOut


def guarded(begin: CarryOut, guard: Guard, refuse: Callable[[], None]) -> CarryOut:
    """Carries out a request as `begin` does, unless `guard` refuses it."""

    def unless_refused(code: int, payload: memoryview, buffer: Buffer | None, start: int) -> None:
        if guard.refuses(code, payload):
            refuse()
        else:
            begin(code, payload, buffer, start)

    return unless_refused


def watched(begin: CarryOut, course: Course) -> CarryOut:
    """Carries out a request as `begin` does, and notes when."""

    def with_notes(code: int, payload: memoryview, buffer: Buffer | None, start: int) -> None:
        course.code = code
        course.begin()
        begin(code, payload, buffer, start)
        course.runs_no_more()

    return with_notes
