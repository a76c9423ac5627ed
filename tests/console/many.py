"""The console on a broker that holds much: real topics, real messages, and no page that freezes.

    python -m tests.console.many [--topics 100000] [--messages 10000000]

Fills a broker, signs in with Chromium, and goes through the pages that could hold all of it: the
overview, the list of topics to its end and filtered, the newest, oldest and middle messages, the
live tail. The page itself counts the longest time that it drew nothing.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from playwright.sync_api import Browser, expect, sync_playwright

from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic
from tests.broker import HTTP, BrokerProcess
from tests.console.browsing import FLAGS, PATIENCE_MS, Console, tab
from tests.wire import Wire, send_frame

SETTINGS: Final = {
    **HTTP,
    "IGGY_SYSTEM_STATE_ENFORCE_FSYNC": "false",
    "IGGY_LIMITS_CHANGES_PER_SECOND": "1000000",
    "IGGY_LIMITS_CHANGES_BURST": "1000000",
}
BATCH: Final = 1000
AT_ONCE: Final = 8
ROWS_MAX: Final = 80

WATCH: Final = """() => {
  window.longestGap = 0;
  let before = performance.now();
  const drawn = now => {
    window.longestGap = Math.max(window.longestGap, now - before);
    before = now;
    requestAnimationFrame(drawn);
  };
  requestAnimationFrame(drawn);
}"""


class Seen(NamedTuple):
    """What was gone through, and the longest time without a frame, in ms, page by page."""

    topics: int
    messages: int
    gaps_ms: dict[str, int]


def fill(broker: BrokerProcess, topics: int, messages: int) -> None:
    """One stream with all topics; all messages in partition 0 of the first of them."""
    with Wire(broker) as wire:
        wire.ask(CreateStream("many"))
        for number in range(topics):
            wire.ask(CreateTopic("many", 1, 1, 0, 0, 1, name_of(number)))
        frame = send_frame("many", name_of(0), [b"message %d" % one for one in range(BATCH)])
        left = messages // BATCH
        while left:
            count = min(left, AT_ONCE)
            for _ in range(count):
                wire.put(frame)
            assert all(answer.status == 0 for answer in wire.answers(count))
            left -= count


def name_of(number: int) -> str:
    return f"topic-{number:06d}"


def go_through(browser: Browser, broker: BrokerProcess, topics: int, messages: int) -> Seen:
    """Every page that could hold all of it. A page that freezes runs into Playwright's timeout."""
    gaps: dict[str, int] = {}
    with tab(browser, broker) as console:
        console.page.evaluate(WATCH)
        with watched(console, gaps, "overview"):
            console.go("/")
            console.heading("Overview")
            console.page.locator(".loading").wait_for(state="detached")
        with watched(console, gaps, "streams"):
            console.go("/streams")
            console.sees("many")
        with watched(console, gaps, "topics"):
            _topics(console, topics)
        with watched(console, gaps, "messages"):
            _messages(console, messages)
        with watched(console, gaps, "tail"):
            console.go("/streams/0/topics/0/tail")
            console.page.locator("h1").wait_for()
    return Seen(topics, messages, gaps)


def _topics(console: Console, topics: int) -> None:
    console.go("/streams/0")
    rows = console.page.locator(".rows-space .row")
    console.sees(name_of(0))
    rows.first.focus()
    console.page.keyboard.press("End")
    console.sees(name_of(topics - 1))
    assert rows.count() < ROWS_MAX
    console.fill("Filter by name", name_of(topics - 1)[:-1])
    expect(rows).to_have_count(min(10, topics))


def _messages(console: Console, messages: int) -> None:
    console.go("/streams/0/topics/0/messages")
    console.sees(_offsets(messages - 50, messages))
    console.page.keyboard.press("[")
    console.sees(_offsets(messages - 100, messages))
    console.fill("From offset", f"{messages // 2}")
    console.page.keyboard.press("Enter")
    console.sees(_offsets(messages // 2, messages))
    console.fill("From time", "2020-01-01T00:00:00")
    console.sees(_offsets(0, messages))


def _offsets(first: int, messages: int) -> str:
    """What a page of 50 messages says."""
    return f"Offsets {first:,} to {first + 49:,} of {messages - 1:,}"


@contextmanager
def watched(console: Console, gaps: dict[str, int], name: str) -> Iterator[None]:
    console.page.evaluate("() => { window.longestGap = 0; }")
    yield
    gaps[name] = round(console.page.evaluate("() => window.longestGap"))


def run(data: Path, topics: int, messages: int, browser: Browser) -> Seen:
    """Fill a broker and look at it."""
    limit = str(max(4096, 2 * topics))
    broker = BrokerProcess(data, {**SETTINGS, "IGGY_LIMITS_PARTITIONS_TOTAL_MAX": limit})
    broker.start()
    try:
        fill(broker, topics, messages)
        return go_through(browser, broker, topics, messages)
    finally:
        broker.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="the console on a broker that holds much")
    parser.add_argument("--topics", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=10_000_000)
    arguments = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("needs chromium")
    expect.set_options(timeout=PATIENCE_MS)
    with tempfile.TemporaryDirectory(prefix="borzoi-many-") as place, sync_playwright() as library:
        browser = library.chromium.launch(executable_path=chromium, args=list(FLAGS))
        seen = run(Path(place) / "data", arguments.topics, arguments.messages, browser)
        browser.close()
    gaps = ", ".join(f"{name} {gap} ms" for name, gap in seen.gaps_ms.items())
    print(f"{seen.topics} topics, {seen.messages} messages; longest time without a frame: {gaps}")


if __name__ == "__main__":
    main()
