"""Every test with an event loop runs on asyncio's own and on uvloop's."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import pytest
import uvloop

Run: TypeAlias = Callable[[Coroutine[Any, Any, None]], None]

TEST_TIMEOUT_S = 60


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    def run_to_end(test: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.wait_for(test, TEST_TIMEOUT_S))

    return run_to_end
