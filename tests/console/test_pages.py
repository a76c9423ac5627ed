"""Every page and dialog of the console, in Chromium, against a real broker."""

import base64
import json
import re
import struct
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.broker import HTTP, BrokerProcess
from tests.console.browsing import PATIENCE_MS, PHONE, Console, tab
from tests.console.many import run as run_many
from tests.http_client import HttpClient

pytestmark = pytest.mark.slow
expect.set_options(timeout=PATIENCE_MS)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def made(root: HttpClient, stream: str, topic: str = "t", partitions: int = 2) -> str:
    """The path of a new topic."""
    path = f"/streams/{root.ask('POST', '/streams', {'name': stream}).json['id']}/topics"
    found = root.ask("POST", path, {"name": topic, "partitions_count": partitions})
    assert found.status == 200, found
    return f"{path}/{found.json['id']}"


def send(root: HttpClient, path: str, *payloads: bytes, partition: int = 0) -> None:
    to = {"kind": "partition_id", "value": b64(struct.pack("<I", partition))}
    messages = [{"payload": b64(one)} for one in payloads]
    body = {"partitioning": to, "messages": messages}
    assert root.ask("POST", f"{path}/messages", body).status == 201


def test_signing_in_and_out(browser: Browser, console_broker: BrokerProcess) -> None:
    with tab(browser, console_broker, signed_in=False) as console:
        console.sign_in(password="wrong")
        console.sees("The user or the password is wrong")
        console.fill("Password", "iggy")
        console.click("Sign in")
        console.heading("Overview")
        console.sees("durability: written")
        console.go("/tokens")
        console.click("New token")
        console.fill("Name", "console test")
        console.click("Create token")
        console.sees("It is shown now and never again")
        token = console.page.locator("dialog code").inner_text()
        console.click("Close")
        console.click("Sign out")
        console.sees("You have signed out.")
        console.click("Access token")
        console.fill("Personal access token", "nonsense")
        console.click("Sign in")
        console.sees("The token is not accepted")
        console.fill("Personal access token", token)
        console.click("Sign in")
        # The page of before, as the same user.
        console.heading("Access tokens")
        console.page.get_by_text("iggy", exact=True).wait_for()
        console.click("Withdraw the token console test")
        console.click("Withdraw token")
        console.sees("You have no access token.")
        console.sees("./borzoi pat create reports")


def test_streams_and_topics_live_and_end(console: Console, root: HttpClient) -> None:
    console.go("/streams")
    console.click("New stream")
    console.fill("Name", "first")
    console.click("Create stream")
    console.heading("first")
    console.sees("./borzoi topic create first events 4")
    console.click("Rename")
    console.fill("Name", "renamed")
    console.page.locator("dialog").get_by_role("button", name="Rename").click()
    console.heading("renamed")
    console.click("New topic")
    console.fill("Name", "events")
    console.fill("Partitions", "x")
    console.sees("A number from 0 to 1,000.")
    console.fill("Partitions", "3")
    console.fill("Messages expire after", "7 days")
    console.fill("Size at most", "10 GiB")
    console.click("Create topic")
    console.heading("events")
    topic = root.ask("GET", "/streams/renamed/topics/events").json
    assert topic["partitions_count"] == 3
    assert (topic["message_expiry"], topic["max_topic_size"]) == (604_800_000_000, 10 * 2**30)
    console.click("Settings")
    console.fill("Name", "happenings")
    console.fill("Messages expire after", "never")
    console.fill("Size at most", "unlimited")
    console.click("Save")
    console.heading("happenings")
    topic = root.ask("GET", "/streams/renamed/topics/happenings").json
    assert (topic["message_expiry"], topic["max_topic_size"]) == (2**64 - 1, 2**64 - 1)
    console.click("Add partitions")
    console.fill("How many", "2")
    console.click("Add")
    console.page.get_by_role("table", name="Partitions").get_by_text("4", exact=True).wait_for()
    console.click("Remove partitions")
    console.fill("How many of the last", "1")
    console.click("Remove")
    console.closed()
    console.click("Segments of partition 0")
    console.fill("How many of the oldest", "1")
    console.click("Delete segments")
    console.closed()


def test_purges_and_ends_ask_for_the_name(console: Console, root: HttpClient) -> None:
    path = made(root, "purged", "happenings")
    console.go(path)
    send(root, path, b"x")
    console.click("Purge")
    console.confirm("happenings", "Purge topic")
    assert root.ask("GET", path).json["messages_count"] == 0
    console.click("Delete the topic")
    console.confirm("happenings", "Delete topic")
    console.heading("purged")
    console.click("Purge")
    console.confirm("purged", "Purge stream")
    # A name that is taken is refused, with the words of the broker.
    console.go("/streams")
    console.click("New stream")
    console.fill("Name", "purged")
    console.click("Create stream")
    refused = re.compile("another stream has this name|purged")
    expect(console.page.locator("dialog [role=alert]")).to_contain_text(refused)
    console.page.keyboard.press("Escape")
    console.closed()
    console.page.get_by_role("link", name="purged").click()
    console.click("Delete the stream")
    console.confirm("purged", "Delete stream")
    console.heading("Streams")
    assert root.ask("GET", "/streams/purged").status == 404


def test_messages_are_sent_found_and_read(console: Console, root: HttpClient) -> None:
    path = made(root, "messages")
    page = console.page
    console.go(f"{path}/messages")
    console.sees("Partition 0 is empty.")
    console.go(f"{path}/produce")
    console.click("JSON")
    console.fill("Payload", '{"order": 90071992547409931, "of": ["a"]')
    console.sees("No JSON")
    console.fill("Payload", '{"order": 90071992547409931, "of": ["a"]}')
    page.get_by_label("Partition is chosen").select_option("partition_id")
    console.click("Add a header")
    console.fill("Key of header 1", "trace")
    console.fill("Value of header 1", "abc")
    console.click("Send")
    console.sees("1 message appended.")
    send(root, path, b"\x82\xa1a\x01\xa1b\xc3", b"<a><b>1</b></a>", b"\x00\xff\x10", b"plain text")
    console.go(f"{path}/messages")
    page.get_by_role("row").filter(has_text="90071992547409931").click()
    inspector = page.get_by_role("complementary", name="Message 0")
    expect(inspector).to_contain_text("trace")
    expect(inspector.get_by_label("Payload", exact=True)).to_have_text(
        '{\n  "order": 90071992547409931,\n  "of": [\n    "a"\n  ]\n}'
    )
    console.click("Copy the payload")
    page.get_by_role("button", name="Copied").wait_for()
    assert "90071992547409931" in page.evaluate("navigator.clipboard.readText()")
    with page.expect_download() as download:
        console.click("Download the payload")
    assert json.loads(Path(download.value.path()).read_bytes())["of"] == ["a"]
    for offset, decoder, text in [
        (1, "MessagePack", '{\n  "a": 1,\n  "b": true\n}'),
        (2, "XML", "<a>\n  <b>1</b>\n</a>"),
        (3, "Hex", "000000  00 ff 10"),
        (4, "Text", "plain text"),
    ]:
        page.locator(".rows-body .row", has=page.get_by_text(str(offset), exact=True)).first.click()
        inspector = page.get_by_role("complementary", name=f"Message {offset}")
        expect(inspector.get_by_label("Payload", exact=True)).to_contain_text(text)
        expect(inspector.get_by_label("Show the payload as")).to_contain_text(f"Auto: {decoder}")
    page.get_by_label("Show the payload as").select_option("hex")
    expect(inspector.get_by_label("Payload", exact=True)).to_contain_text("70 6c 61 69")
    page.get_by_label("Show the payload as").select_option("json")
    console.sees("This payload is no JSON.")
    console.click("Hide payloads")
    console.sees("Payloads are hidden.")
    expect(page.get_by_text("plain text")).to_have_count(0)
    console.click("Show payloads")
    console.click("Close the message")


def test_pages_of_messages(console: Console, root: HttpClient) -> None:
    path = made(root, "paging")
    page = console.page
    send(root, path, *(b"number %d" % number for number in range(130)))
    console.go(f"{path}/messages")
    console.sees("Offsets 80 to 129 of 129")
    page.keyboard.press("[")
    console.sees("Offsets 30 to 79 of 129")
    console.click("Earlier")
    console.sees("Offsets 0 to 49 of 129")
    assert "offset=0" in page.url
    page.keyboard.press("]")
    console.sees("Offsets 50 to 99 of 129")
    console.fill("From offset", "17")
    page.keyboard.press("Enter")
    console.sees("Offsets 17 to 66 of 129")
    console.fill("Filter this page", "number 42")
    console.sees("1 message with")
    page.reload()
    expect(page.get_by_label("Filter this page")).to_have_value("number 42")
    console.fill("Filter this page", "")
    console.click("Oldest first")
    page.get_by_label("A page has").select_option("20")
    console.sees("Offsets 17 to 36 of 129")
    console.fill("From time", "2020-01-01T00:00:00")
    console.sees("Offsets 0 to 19 of 129")
    page.get_by_label("Partition", exact=True).select_option("1")
    console.sees("Partition 1 is empty.")


def test_the_tail_shows_what_comes(console: Console, root: HttpClient) -> None:
    path = made(root, "tailed")
    page = console.page
    console.go(f"{path}/tail?filter=apple")
    console.sees("Waiting for messages.")
    send(root, path, b"an apple", b"a pear", partition=1)
    console.sees("an apple")
    console.sees("1 of 2 messages")
    expect(page.get_by_text("a pear")).to_have_count(0)
    console.fill("Filter", "/p.ar/")
    console.sees("a pear")
    assert "filter=%2Fp.ar%2F" in page.url
    console.fill("Filter", "/(/")
    console.sees("not a pattern yet")
    console.fill("Filter", "")
    # One partition: a poll that waits.
    page.get_by_label("Partition", exact=True).select_option("1")
    console.sees("2 messages")
    console.click("Pause")
    send(root, path, b"a quince", partition=1)
    console.sees("paused")
    console.click("Go on")
    console.sees("a quince")
    page.get_by_role("row").filter(has_text="a quince").click()
    page.get_by_role("complementary", name="Message 2").wait_for()
    console.click("Close the message")
    console.click("Clear")
    console.sees("Waiting for messages.")


def test_groups_show_members_and_lag(console: Console, root: HttpClient) -> None:
    path = made(root, "grouped")
    page = console.page
    console.go(f"{path}/groups")
    console.sees("./borzoi consumer-group create grouped t billing")
    console.click("New group")
    console.fill("Name", "billing")
    console.click("Create group")
    console.closed()
    console.sees("0 members")
    send(root, path, *([b"x"] * 10))
    joined = root.ask("POST", f"{path}/consumer-groups/billing/members", {"lease": "1h"}).json
    polled = root.ask(
        "GET",
        f"{path}/consumer-groups/billing/members/{joined['id']}/messages?count=4&auto_commit=true",
    )
    assert polled.json["count"] == 4
    expect(page.get_by_text("lag 6", exact=True)).to_be_visible()
    expect(page.locator(".chip")).to_have_text(["0", "1"])
    page.get_by_text("Lag over time, messages").wait_for()
    single = "consumer_id=nightly&partition_id=0&kind=next&count=1&auto_commit=true"
    polled = root.ask("GET", f"{path}/messages?{single}")
    assert polled.json["count"] == 1
    console.go("/lag")
    console.sees("nightly")
    console.fill("Filter", "billing")
    row = page.get_by_role("table", name="Consumers and their lag").get_by_role("row").nth(1)
    expect(row).to_contain_text("grouped")
    expect(row).to_contain_text("6")
    console.go("/clients")
    page.locator(".rows-body .row.opens").first.click()
    page.locator("dialog").get_by_role("link", name="group 0").wait_for()
    console.click("Close")
    console.go(f"{path}/groups")
    console.click("Delete the group")
    console.confirm("billing", "Delete group")
    console.sees("No consumer group reads this topic yet.")


def test_load_logs_server_and_reports(console: Console, root: HttpClient) -> None:
    page = console.page
    console.go("/load")
    expect(page.get_by_role("table").get_by_text("up", exact=True)).to_have_count(2)
    page.get_by_text("CPU per shard").wait_for()
    console.go("/logs")
    page.get_by_role("table", name="Log lines").wait_for()
    made(root, "logged while open")
    console.fill("Filter", "logged while open")
    page.get_by_role("row").filter(has_text="logged while open").first.click()
    page.get_by_role("heading", name="Log line").wait_for()
    console.click("Close")
    console.click("ERROR")
    console.sees("No line fits.")
    assert "level=ERROR" in page.url
    console.go("/server")
    console.sees("A send is answered when the kernel has the bytes.")
    console.fill("Filter settings", "encoding_secret")
    expect(page.get_by_role("table", name="Settings")).to_contain_text("******")
    page.get_by_label("Only what differs from the default").check()
    assert "changed=1" in page.url
    console.click("Snapshot")
    with page.expect_download() as download:
        console.click("Download snapshot")
    assert Path(download.value.path()).read_bytes()[:2] == b"PK"
    console.go("/bench")
    console.sees("IGGY_CONSOLE_REPORTS=performance_results ./borzoi serve")


def test_histograms_become_latencies(console: Console) -> None:
    """Whatever histograms a broker has, with figures that can be checked by hand."""
    shots = iter(range(1_000_000))

    def metrics(route: Route) -> None:
        count = 100 * next(shots)
        route.fulfill(
            content_type="text/plain",
            body=f"""# TYPE borzoi_shard_up gauge
borzoi_shard_up{{shard="0"}} 1
borzoi_log_written_bytes_total{{shard="0"}} {count * 1024}
borzoi_request_duration_seconds_bucket{{shard="0",door="tcp",command="send",le="0.001"}} 0
borzoi_request_duration_seconds_bucket{{shard="0",door="tcp",command="send",le="0.002"}} {count}
borzoi_request_duration_seconds_bucket{{shard="0",door="tcp",command="send",le="+Inf"}} {count}
borzoi_request_duration_seconds_count{{shard="0",door="tcp",command="send"}} {count}
# EOF
""",
        )

    console.page.route("**/metrics", metrics)
    console.go("/load")
    latency = console.page.get_by_role("img", name=re.compile("^Latency of requests"))
    # All are between 1 and 2 ms, evenly as far as anything is known.
    expect(latency).to_have_accessible_name(re.compile(r"median: 1\.50 ms, 99 %: 1\.99 ms"))
    console.page.get_by_role("img", name=re.compile("^Bytes written per second")).wait_for()


def test_users_and_their_permissions(console: Console, root: HttpClient) -> None:
    made(root, "permitted", "inner")
    page = console.page
    console.go("/users")
    console.click("New user")
    console.fill("Name", "reader")
    console.fill("Password", "secret")
    console.click("Create user")
    console.heading("reader")
    page.get_by_label("read servers").check()
    page.get_by_label("Rights on one more stream").select_option(label="permitted")
    panel = page.locator(".panel", has_text="Stream permitted")
    panel.get_by_label("poll messages").check()
    panel.get_by_label("Rights on one more topic").select_option(label="inner")
    panel.locator(".topic-rights").get_by_label("send messages").check()
    console.click("Save permissions")
    console.sees("Saved.")
    rights = root.ask("GET", "/users/reader").json["permissions"]
    assert [name for name, held in rights["global"].items() if held] == ["read_servers"]
    (stream,) = rights["streams"].values()
    assert stream["poll_messages"] is True
    assert stream["topics"]["0"]["send_messages"] is True
    console.click("Change password")
    console.fill("Its present password", "secret")
    console.fill("New password", "another")
    console.fill("New password again", "anothre")
    console.sees("The two differ.")
    console.fill("New password again", "another")
    page.locator("dialog").get_by_role("button", name="Change password").click()
    console.closed()
    HttpClient(console.broker).login("reader", "another")
    console.click("Edit")
    page.get_by_label("Active").uncheck()
    console.click("Save")
    console.sees("inactive")
    console.click("Delete the user")
    console.confirm("reader", "Delete user")
    console.heading("Users")
    page.get_by_role("link", name="iggy").click()
    console.sees("This is the root user")


def test_pages_say_which_permission_is_missing(
    browser: Browser, console_broker: BrokerProcess, root: HttpClient
) -> None:
    body = {"username": "newcomer", "password": "secret", "status": "active"}
    assert root.ask("POST", "/users", {**body, "permissions": None}).status == 200
    with tab(browser, console_broker, signed_in=False) as console:
        console.sign_in("newcomer", "secret")
        for place in ("/streams", "/clients", "/users", "/logs", "/server"):
            console.go(place)
            console.sees("You lack the permission for this.")


def test_keys(console: Console, root: HttpClient) -> None:
    made(root, "by keys")
    page = console.page
    page.keyboard.press("?")
    page.get_by_role("heading", name="Keys").wait_for()
    page.keyboard.press("Escape")
    console.closed()
    page.keyboard.press("g")
    page.keyboard.press("s")
    console.heading("Streams")
    page.get_by_label("Filter by name").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("by keys")
    page.keyboard.press("Escape")
    expect(page.locator(".rows-space .row")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    console.heading("by keys")
    page.keyboard.press("h")
    page.get_by_role("button", name="Show payloads").wait_for()
    page.keyboard.press("d")
    page.get_by_role("button", name="Theme: light").wait_for()
    page.keyboard.press("n")
    page.get_by_role("heading", name="New topic").wait_for()
    page.keyboard.press("Escape")
    console.closed()


def test_at_phone_width_everything_is_reached(
    browser: Browser, console_broker: BrokerProcess, root: HttpClient
) -> None:
    path = made(root, "on the phone")
    send(root, path, b"seen on a phone")
    with tab(browser, console_broker, PHONE) as console:
        page = console.page
        console.click("Open the menu")
        pages = page.get_by_role("navigation", name="Pages")
        pages.get_by_role("link", name="Streams").click()
        page.get_by_role("link", name="on the phone").click()
        page.get_by_role("link", name="t", exact=True).click()
        page.get_by_role("link", name="Messages").click()
        page.get_by_role("row").filter(has_text="seen on a phone").click()
        page.get_by_role("complementary", name="Message 0").wait_for()
        for place in ("/", f"{path}/messages", f"{path}/tail", f"{path}/groups", "/server"):
            console.go(place)
            page.locator("h1").wait_for()
            wider = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
            assert page.evaluate(wider) is False, place
        console.go(f"{path}/tail")
        console.sees("./borzoi message send 'on the phone' t hello")


MANY_TOPICS = """() => {
  const topic = {
    created_at: 1, size: "0 B", message_expiry: 0, compression_algorithm: "none",
    max_topic_size: 0, replication_factor: 1, messages_count: 0, partitions_count: 1,
  };
  const topics = Array.from({ length: 100000 }, (_, id) => (
    { ...topic, id, name: `topic-${String(id).padStart(6, "0")}` }
  ));
  const stream = { id: 999, created_at: 1, name: "many", size: "0 B", messages_count: 0 };
  const body = JSON.stringify({ ...stream, topics_count: topics.length, topics });
  const before = window.fetch;
  window.fetch = (path, options) =>
    path === "/streams/999" ? Promise.resolve(new Response(body)) : before(path, options);
}"""
"""An answer of the broker with so many topics, made where it is read."""


def test_long_lists_hold_few_rows(console: Console, root: HttpClient) -> None:
    """100,000 topics, as the broker would write them."""
    page = console.page
    page.evaluate(MANY_TOPICS)
    console.go("/streams/999")
    console.sees("topic-000000")
    rows = page.locator(".rows-space .row")
    assert rows.count() < 80
    rows.first.focus()
    page.keyboard.press("End")
    console.sees("topic-099999")
    assert rows.count() < 80
    console.fill("Filter by name", "topic-04242")
    expect(rows).to_have_count(10)


def test_many_real_messages_are_gone_through(browser: Browser, tmp_path: Path) -> None:
    """The short form of tests.console.many."""
    seen = run_many(tmp_path / "data", 100, 200_000, browser)
    assert seen.gaps_ms.keys() == {"overview", "streams", "topics", "messages", "tail"}


def test_a_session_that_is_withdrawn_begins_again(console: Console, root: HttpClient) -> None:
    path = made(root, "resumed")
    console.go(f"{path}/messages")
    console.sees("Partition 0 is empty.")
    withdrawn = HttpClient(console.broker, console.token()).ask("DELETE", "/users/logout")
    assert withdrawn.status == 204
    console.sees("Your session has ended.")
    console.fill("User", "iggy")
    console.fill("Password", "iggy")
    console.click("Sign in")
    console.sees("Partition 0 is empty.")


OLD_TOKEN = """seconds => {
  const held = JSON.parse(sessionStorage.getItem("borzoi.session"));
  const now = Date.now() / 1000;
  const changed = { ...held, begunAt: now - 1e6, expiresAt: now + seconds };
  sessionStorage.setItem("borzoi.session", JSON.stringify(changed));
}"""
"""The token of the tab as if it were old, with so many seconds left."""


def test_a_token_is_exchanged_before_its_end(console: Console) -> None:
    first = console.token()
    console.page.evaluate(OLD_TOKEN, 3600)
    console.page.reload()
    console.page.wait_for_function(
        "before => JSON.parse(sessionStorage.getItem('borzoi.session')).token !== before",
        arg=first,
    )
    console.heading("Overview")
    # What the tab gave away is no token any more.
    assert HttpClient(console.broker, first).ask("GET", "/streams").status == 401
    console.page.evaluate(OLD_TOKEN, -1)
    console.page.reload()
    console.page.get_by_label("Password", exact=True).wait_for()


def test_a_page_waits_for_its_broker(browser: Browser, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", HTTP)
    broker.start()
    try:
        with tab(browser, broker) as console:
            console.go("/streams")
            console.sees("There is no stream yet.")
            assert broker.stop() == 0
            console.sees("The broker does not answer.")
            broker.start()
            made(HttpClient(broker).login(), "after the restart")
            console.sees("after the restart")
            expect(console.page.get_by_text("The broker does not answer.")).to_have_count(0)
        assert broker.stop() == 0
    finally:
        broker.close()
