"""Chromium on the console of a broker: signed in, and watched for what goes wrong unseen."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from playwright.sync_api import Browser, ConsoleMessage, Page

from tests.broker import BrokerProcess

FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-quic",
)  # fmt: skip
PATIENCE_MS: Final = 60_000
WIDE: Final = (1360, 860)
PHONE: Final = (390, 844)
EXPECTED: Final = re.compile(r"Failed to load resource")
"""Refusals and lost connections are part of what is tested; the page says them itself."""


class Console:
    """One tab."""

    def __init__(self, page: Page, broker: BrokerProcess) -> None:
        self.page = page
        self.broker = broker
        self.complaints: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(f"{error}\n{error.stack}"))

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not EXPECTED.search(message.text):
            self.complaints.append(f"{message.type}: {message.text}")

    @property
    def url(self) -> str:
        return f"http://{self.broker.http_address}/ui/"

    def go(self, path: str) -> None:
        self.page.goto(f"{self.url}#{path}")

    def sign_in(self, username: str = "iggy", password: str = "iggy") -> None:
        self.page.goto(self.url)
        self.page.get_by_label("User", exact=True).fill(username)
        self.page.get_by_label("Password", exact=True).fill(password)
        self.click("Sign in")

    def click(self, name: str) -> None:
        """A button by its name."""
        self.page.get_by_role("button", name=name, exact=True).click()

    def fill(self, label: str, text: str) -> None:
        self.page.get_by_label(label, exact=True).fill(text)

    def sees(self, text: str) -> None:
        self.page.get_by_text(text).first.wait_for()

    def heading(self, name: str) -> None:
        self.page.get_by_role("heading", name=name, exact=True, level=1).wait_for()

    def confirm(self, name: str, action: str) -> None:
        """The dialog before something is removed: its button waits for the name."""
        button = self.page.get_by_role("button", name=action, exact=True)
        assert button.is_disabled()
        self.fill(f"Type {name} to confirm", name)
        button.click()
        self.closed()

    def closed(self) -> None:
        """No dialog is open any more."""
        self.page.locator("dialog").wait_for(state="detached")

    def token(self) -> str:
        found = self.page.evaluate("JSON.parse(sessionStorage.getItem('borzoi.session')).token")
        assert isinstance(found, str)
        return found


@contextmanager
def tab(
    browser: Browser,
    broker: BrokerProcess,
    size: tuple[int, int] = WIDE,
    scheme: str = "light",
    *,
    signed_in: bool = True,
) -> Iterator[Console]:
    """A tab of its own profile; it fails at the end if the page complained."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if scheme == "dark" else "light",
        permissions=["clipboard-read", "clipboard-write"],
        accept_downloads=True,
    )
    try:
        console = Console(context.new_page(), broker)
        if signed_in:
            console.sign_in()
            console.heading("Overview")
        yield console
        assert console.complaints == []
    finally:
        context.close()
