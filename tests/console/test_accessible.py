"""axe-core finds nothing to complain about: every page, light, dark and at phone width."""

from typing import Final

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.broker import BrokerProcess
from tests.console.browsing import PHONE, WIDE, tab
from tests.console.test_pages import made, send
from tests.http_client import HttpClient

pytestmark = pytest.mark.slow

PAGES: Final = (
    "/", "/streams", "/streams/{stream}", "{topic}", "{topic}/messages", "{topic}/tail",
    "{topic}/produce", "{topic}/groups", "/lag", "/load", "/clients", "/logs", "/server",
    "/bench", "/users", "/users/0", "/users/{user}", "/tokens", "/no such page",
)  # fmt: skip
SOME: Final = ("/", "{topic}", "{topic}/groups", "/load", "/server", "/users/{user}")
"""In other colours and at other widths: those that differ there."""

DIALOGS: Final = (
    ("/users", "New user"), ("/users/{user}", "Change password"), ("/streams", "New stream"),
    ("/streams/{stream}", "Delete the stream"), ("{topic}", "Settings"), ("{topic}", "Purge"),
    ("{topic}", "Add partitions"), ("{topic}/groups", "New group"), ("/tokens", "New token"),
    ("/server", "Snapshot"),
)  # fmt: skip
"""Pages and the buttons on them that open one."""

OPTIONS: Final = {"resultTypes": ["violations"]}


def violations(page: Page) -> list[str]:
    found = Axe().run(page, options=OPTIONS)
    return [
        f"{rule['id']}: {node['html'][:200]}"
        for rule in found.response["violations"]
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize(
    ("size", "scheme", "pages"),
    [(WIDE, "light", PAGES), (WIDE, "dark", SOME), (PHONE, "light", SOME)],
    ids=["light", "dark", "phone"],
)
def test_no_page_has_a_violation(
    browser: Browser,
    console_broker: BrokerProcess,
    root: HttpClient,
    size: tuple[int, int],
    scheme: str,
    pages: tuple[str, ...],
) -> None:
    name = f"axe {size[0]} {scheme}"
    topic = made(root, name)
    send(root, topic, b'{"some": "json"}', b"text")
    group = root.ask("POST", f"{topic}/consumer-groups", {"name": "readers"})
    assert group.status == 201
    body = {"username": name, "password": "secret", "status": "active", "permissions": None}
    user = root.ask("POST", "/users", body).json["id"]
    with tab(browser, console_broker, size, scheme, signed_in=False) as console:
        console.page.goto(console.url)
        console.page.get_by_label("User", exact=True).wait_for()
        found = {"sign-in": violations(console.page)}
        console.sign_in()
        console.heading("Overview")
        for each in pages:
            place = each.format(topic=topic, stream=topic.split("/")[2], user=user)
            console.go(place)
            console.page.locator("h1").wait_for()
            console.page.locator(".loading").wait_for(state="detached")
            found[place] = violations(console.page)
        for each, button in DIALOGS if pages is PAGES else DIALOGS[:1]:
            console.go(each.format(topic=topic, stream=topic.split("/")[2], user=user))
            console.click(button)
            console.page.locator("dialog").wait_for()
            found[button] = violations(console.page)
            console.page.keyboard.press("Escape")
            console.closed()
        console.go(f"{topic}/messages")
        console.page.get_by_role("row").filter(has_text="some").click()
        console.page.get_by_role("complementary").wait_for()
        found["inspector"] = violations(console.page)
    said = [f"{place}: {one}" for place, each in found.items() for one in each]
    assert said == [], "\n".join(said)
