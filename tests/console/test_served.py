"""The files of the console over HTTP, and the three endpoints that came with it."""

import gzip
import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from borzoi.shards.config.documents import Findings, build_config
from borzoi.shards.settings.schema import Config
from borzoi.shards.web_console.assets import load_assets
from borzoi.shards.web_console.facts import settings_of, warnings_of
from borzoi.shards.web_console.log_tail import LogPlace, LogTail
from borzoi.shards.web_console.pages import Console
from borzoi.shards.web_console.reports import rows_in
from borzoi.shards.web_forms.failures import Failure
from tests.broker import HTTP, BrokerProcess, standing, wait_for
from tests.http_client import HttpAnswer, HttpClient
from tests.tidy.repository import ROOT

GZIP = {"Accept-Encoding": "gzip, deflate, br"}


@pytest.fixture(scope="module")
def page(console_broker: BrokerProcess) -> HttpAnswer:
    return HttpClient(console_broker).ask("GET", "/ui")


def assets_of(page: HttpAnswer) -> list[str]:
    return re.findall(r'(?:src|href)="(/ui/assets/[^"]+)"', page.body.decode())


def test_the_page_is_guarded(page: HttpAnswer) -> None:
    assert page.status == 200
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    assert page.headers["Cache-Control"] == "no-cache"
    # What the policy rules out is not in the page.
    assert b"<style" not in page.body
    assert not re.search(rb"<script(?![^>]*\ssrc=)", page.body)
    assert b"//" not in page.body.replace(b"http://www.w3.org", b"")


def test_assets_are_kept_for_ever_and_packed(
    console_broker: BrokerProcess, page: HttpAnswer
) -> None:
    client = HttpClient(console_broker)
    paths = assets_of(page)
    assert len(paths) >= 3
    for path in paths:
        plain = client.ask("GET", path)
        packed = client.ask("GET", path, headers=GZIP)
        assert (plain.status, packed.status) == (200, 200)
        assert "immutable" in plain.headers["Cache-Control"]
        assert packed.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(packed.body) == plain.body
        known = client.ask("GET", path, headers={"If-None-Match": plain.headers["ETag"]})
        assert (known.status, known.body) == (304, b"")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/ui/", 200),
        ("GET", "/ui/streams/7", 200),
        ("HEAD", "/ui", 200),
        ("GET", "/ui/assets/none.js", 404),
        ("GET", "/ui/../jwt-key.pem", 404),
        ("GET", "/ui/%2e%2e/pyproject.toml", 404),
        ("POST", "/ui", 405),
        ("GET", "/uix", 401),
    ],
)
def test_paths(console_broker: BrokerProcess, method: str, path: str, status: int) -> None:
    assert HttpClient(console_broker).ask(method, path).status == status


@pytest.mark.parametrize("address", ["127.0.0.1:3000", "[::1]:3000", "localhost:3000"])
def test_loopback_shows_the_console(address: str) -> None:
    console = Console(enabled=True, everywhere=False)
    assert not console.serves("/ui")
    console.opened(address)
    assert console.serves("/ui")
    assert not console.serves("/uid")


def test_other_addresses_show_it_when_asked_to() -> None:
    for enabled, everywhere, serves in [(True, False, False), (False, True, True)]:
        console = Console(enabled=enabled, everywhere=everywhere)
        console.opened("0.0.0.0:3000")
        assert console.serves("/ui") is serves
    switched_off = Console(enabled=False, everywhere=False)
    switched_off.opened("127.0.0.1:3000")
    assert not switched_off.serves("/ui")


def test_a_switched_off_console_is_a_path_like_any_other(tmp_path: Path) -> None:
    settings = {**HTTP, "IGGY_CONSOLE_ENABLED": "false"}
    with standing(tmp_path / "data", settings) as broker:
        assert HttpClient(broker).ask("GET", "/ui").status == 401


def test_gzip_is_refused_where_it_weighs_nothing() -> None:
    console = Console(enabled=True, everywhere=True)
    console.opened("127.0.0.1:0")
    packed = console.answer("GET", "/ui", {"Accept-Encoding": "br, gzip;q=0.5"})
    plain = console.answer("GET", "/ui", {"Accept-Encoding": "gzip;q=0, br"})
    assert packed.headers.get("Content-Encoding") == "gzip"
    assert "Content-Encoding" not in plain.headers
    with pytest.raises(Failure):
        console.answer("PUT", "/ui", {})


def test_every_packed_file_is_its_plain_one() -> None:
    """Packed bytes differ between versions of the library, so their content is compared."""
    assets = load_assets()
    assert "index.html" in assets
    for name, asset in assets.items():
        assert asset.packed is None or gzip.decompress(asset.packed) == asset.body, name


def test_the_server_tells_its_settings_without_secrets(console_broker: BrokerProcess) -> None:
    found = HttpClient(console_broker).login().ask("GET", "/server").json
    assert found["durability"] == "written"
    assert found["doors"]["http"] == console_broker.http_address
    assert found["doors"]["tcp"] == console_broker.address
    by_key = {one["key"]: one for one in found["settings"]}
    assert by_key["http.jwt.encoding_secret"]["value"] == "******"
    assert by_key["http.jwt.encoding_secret"]["is_changed"]
    assert by_key["tcp.enabled"] == {
        "key": "tcp.enabled", "value": True, "default": True, "is_changed": False,
    }  # fmt: skip


def config_of(settings: dict[str, dict[str, object]]) -> Config:
    findings = Findings()
    config = build_config(settings, findings)
    assert config is not None, findings
    return config


def test_what_gives_something_up_is_a_warning() -> None:
    # Where the loops are not compiled, that is said of every configuration.
    assert [one for one in warnings_of(Config()) if "compiled" not in one] == []
    buffered = config_of({"system": {"partition": {"durability": "buffered"}}})
    assert any("acknowledged" in one for one in warnings_of(buffered))
    in_clear = config_of({"tcp": {"address": "0.0.0.0:8090"}})
    assert any("tcp.tls" in one for one in warnings_of(in_clear))
    unread = config_of({"system": {"segment": {"protect_unread": "never"}}})
    assert any("protect_unread" in one for one in warnings_of(unread))


def test_every_setting_is_shown() -> None:
    keys = [one.key for one in settings_of(Config())]
    assert len(keys) == len(set(keys)) > 150
    assert "console.enabled" in keys
    assert not any(one.is_changed for one in settings_of(Config()))


@pytest.mark.parametrize("path", ["/server", "/logs", "/reports", "/consumer-names"])
def test_only_readers_of_servers_may_look(console_broker: BrokerProcess, path: str) -> None:
    root = HttpClient(console_broker).login()
    assert HttpClient(console_broker).ask("GET", path).status == 401
    user = f"looker{path[1:]}"
    body = {"username": user, "password": "secret", "status": "active", "permissions": None}
    made = root.ask("POST", "/users", body)
    assert made.status == 200
    looker = HttpClient(console_broker).login(user, "secret")
    assert looker.ask("GET", path).status == 403
    names = (
        "manage_servers", "read_servers", "manage_users", "read_users", "manage_streams",
        "read_streams", "manage_topics", "read_topics", "poll_messages", "send_messages",
    )  # fmt: skip
    rights = {"global": {name: name == "read_servers" for name in names}, "streams": None}
    granted = root.ask("PUT", f"/users/{user}/permissions", {"permissions": rights})
    assert granted.status == 204
    assert looker.ask("GET", path).status == 200


def test_a_consumer_is_known_by_the_name_it_gave(console_broker: BrokerProcess) -> None:
    root = HttpClient(console_broker).login()
    topics = f"/streams/{root.ask('POST', '/streams', {'name': 'named'}).json['id']}/topics"
    assert root.ask("POST", topics, {"name": "t", "partitions_count": 1}).status == 200
    to = {"kind": "partition_id", "value": "AAAAAA=="}
    body = {"partitioning": to, "messages": [{"payload": "YQ=="}]}
    assert root.ask("POST", f"{topics}/t/messages", body).status == 201
    poll = (
        f"{topics}/t/messages?consumer_id=monthly&partition_id=0&kind=next&count=1&auto_commit=true"
    )
    assert root.ask("GET", poll).status == 200

    def named() -> dict[str, int]:
        # Figures that were gathered a moment ago are good enough for the next one who asks.
        heard = {one["name"]: one["consumer"] for one in root.ask("GET", "/consumer-names").json}
        return heard if "monthly" in heard else {}

    lag = f'kind="consumer",consumer="{wait_for(named)["monthly"]}"'
    wait_for(lambda: lag in root.ask("GET", "/metrics").body.decode())


def test_the_log_goes_on_behind_a_mark(console_broker: BrokerProcess) -> None:
    root = HttpClient(console_broker).login()
    first = root.ask("GET", "/logs?lines=5").json
    assert 1 <= len(first["lines"]) <= 5
    assert root.ask("POST", "/streams", {"name": "seen in the log"}).status == 200
    later = root.ask("GET", f"/logs?after={first['mark']}").json
    assert any("seen in the log" in line for line in later["lines"])
    assert not set(first["lines"]) & set(later["lines"])
    assert root.ask("GET", f"/logs?after={later['mark']}").json["lines"] == []
    assert root.ask("GET", "/logs?after=x").status == 400
    assert root.ask("GET", "/logs?lines=0").status == 400


def test_a_rotated_log_loses_no_line(tmp_path: Path) -> None:
    tail = LogTail(tmp_path, ThreadPoolExecutor(1))
    log = tmp_path / "iggy-server.log"
    log.write_text("one\ntwo\nthr")
    first = tail.read(10, None)
    assert first.lines == ["one", "two"]
    with log.open("a") as file:
        file.write("ee\nfour\n")
    log.rename(tmp_path / "iggy-server.log.1")
    log.write_text("five\n")
    mark = LogPlace(*map(int, first.mark.split("-")))
    later = tail.read(10, mark)
    assert later.lines == ["three", "four", "five"]
    assert later.skipped == 0
    # The file of the mark is gone: the newest lines instead.
    (tmp_path / "iggy-server.log.1").unlink()
    assert tail.read(10, mark).lines == ["five"]


def test_a_log_that_grew_too_much_says_so(tmp_path: Path) -> None:
    tail = LogTail(tmp_path, ThreadPoolExecutor(1))
    log = tmp_path / "iggy-server.log"
    log.write_text("begin\n")
    mark = LogPlace(*map(int, tail.read(10, None).mark.split("-")))
    with log.open("a") as file:
        file.writelines(f"line {number:06}\n" for number in range(50_000))
    found = tail.read(10, mark)
    assert found.skipped > 0
    assert found.lines[-1] == "line 049999"
    assert all(re.fullmatch(r"line \d{6}", line) for line in found.lines)


def test_reports_are_rows(tmp_path: Path) -> None:
    summary = {
        "total_throughput_megabytes_per_second": 812.5,
        "total_throughput_messages_per_second": 850_000.0,
        "average_median_latency_ms": 1.5,
        "average_p99_latency_ms": 4.25,
    }
    report = {
        "timestamp": "2026-11-18T20:00:00Z",
        "params": {"benchmark_kind": "pinned_producer", "pretty_name": "Pinned producer"},
        "group_metrics": [{"summary": summary}],
    }
    for name, text in [("good", json.dumps(report)), ("broken", "{"), ("odd", "[]")]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.json").write_text(text)
    (row,) = rows_in(tmp_path)
    assert (row.name, row.kind, row.messages_per_second) == ("good", "Pinned producer", 850_000.0)
    assert rows_in(tmp_path / "none") == []


def test_no_address_of_another_host_is_in_the_lock_file() -> None:
    lock = json.loads((ROOT / "console/package-lock.json").read_text())
    packages = {name: one for name, one in lock["packages"].items() if name}
    assert packages
    assert not any("resolved" in one for one in packages.values())
    assert all("integrity" in one for one in packages.values())


@pytest.mark.slow
def test_the_committed_files_are_a_fresh_build(tmp_path: Path, node_modules: Path) -> None:
    """The build of this commit's sources, byte by byte; packed files by their content."""
    copied = tmp_path / "console"
    copied.mkdir()
    source = ROOT / "console"
    for name in (
        "src",
        "index.html",
        "vite.config.ts",
        "tsconfig.json",
        "package.json",
        "pack.mjs",
    ):
        subprocess.run(["cp", "-r", source / name, copied / name], check=True)
    (copied / "node_modules").symlink_to(node_modules)
    built = subprocess.run(
        ["npm", "run", "build"], cwd=copied, capture_output=True, text=True, timeout=300
    )
    assert built.returncode == 0, built.stdout + built.stderr

    def content(folder: Path) -> dict[str, bytes]:
        return {
            str(path.relative_to(folder)): gzip.decompress(path.read_bytes())
            if path.suffix == ".gz"
            else path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }

    fresh, committed = content(copied / "dist"), content(source / "dist")
    assert sorted(fresh) == sorted(committed)
    assert [name for name, data in fresh.items() if committed[name] != data] == []
