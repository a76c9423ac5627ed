"""The dashboard, the rules and the configuration of docs/deploy, against the metrics there are."""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from borzoi.protocol.commands.streams import CreateStream
from tests.broker import BrokerProcess
from tests.deploy.prometheus import Prometheus, needs_prometheus, promtool
from tests.scraped import Scraped
from tests.shard_wires import TWO_SHARDS
from tests.shards.metrics.test_families import scraped
from tests.tidy.repository import ROOT
from tests.topics import topic_of
from tests.wire import Wire

DEPLOY: Final = ROOT / "docs/deploy"
ALERTS: Final = DEPLOY / "alerts.yml"
DASHBOARD: Final = DEPLOY / "grafana-dashboard.json"
METRICS: Final = {"IGGY_METRICS_ENABLED": "true", "IGGY_METRICS_ADDRESS": "127.0.0.1:0"}

# In PromQL a word is a metric unless it is a function, a label or a word of the language.
NAME = re.compile(
    r"\b(?:borzoi_\w+|(?:streams|topics|partitions|segments|messages|users|clients)(?=\{))"
)
LABELS = re.compile(r"\bby \(([^)]*)\)|\{([^}]*)\}")


def queries() -> dict[str, str]:
    """Every query of the dashboard by its panel, and of the rules by their alert."""
    dashboard = json.loads(DASHBOARD.read_text())
    found = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in dashboard["panels"]
        for target in panel["targets"]
    }
    rules = re.findall(r"alert: (\w+)\n +expr: (.+)", ALERTS.read_text())
    return found | dict(rules)


def samples() -> dict[str, set[str]]:
    """The labels of every sample that a broker shows, by the sample's name."""
    found: dict[str, set[str]] = {}
    for family in scraped().families.values():
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_there_are_queries() -> None:
    assert len(queries()) > 40


@pytest.mark.parametrize("where", queries())
def test_a_query_asks_for_metrics_and_labels_that_exist(where: str) -> None:
    query = queries()[where]
    known = samples()
    names = NAME.findall(query)
    assert names or query.startswith("up")
    assert [name for name in names if name not in known] == []
    labels = {"instance", "job"}.union(*(known[name] for name in names))
    used = set()
    for grouped, matched in LABELS.findall(query):
        used |= {one.strip() for one in grouped.split(",") if one.strip()}
        used |= set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matched))
    assert used <= labels


def test_legends_name_labels_that_the_query_keeps() -> None:
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            wanted = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            kept = re.findall(r"\bby \(([^)]*)\)", target["expr"])
            if kept:
                assert wanted <= {one.strip() for text in kept for one in text.split(",")}


def test_panels_have_places_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


@needs_prometheus
def test_promtool_accepts_configuration_and_rules() -> None:
    found = promtool("check", "config", DEPLOY / "prometheus.yml")
    assert found.returncode == 0, found.stdout + found.stderr
    assert "SUCCESS" in found.stdout


RULE_TESTS = """
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'borzoi_shard_up{{shard="1"}}', values: '1 1 0 0 0 0 0'}}
      - {{series: 'borzoi_partitions_read_only', values: '0 0 0 2 2 2 2'}}
    alert_rule_test:
      - {{eval_time: 1m, alertname: BorzoiShardDown, exp_alerts: []}}
      - eval_time: 6m
        alertname: BorzoiShardDown
        exp_alerts:
          - exp_labels: {{severity: critical, shard: "1"}}
            exp_annotations:
              summary: "shard 1 of  gives no figures"
              description: >-
                Its partitions take no messages meanwhile. The log says why its worker ended.
      - {{eval_time: 2m, alertname: BorzoiPartitionsReadOnly, exp_alerts: []}}
"""


@needs_prometheus
def test_a_rule_fires_when_it_should(tmp_path: Path) -> None:
    tests = tmp_path / "tests.yml"
    tests.write_text(RULE_TESTS.format(rules=ALERTS))
    found = promtool("test", "rules", tests)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("scraped") / "data", {**TWO_SHARDS, **METRICS})
    try:
        broker.start()
        with Wire(broker) as wire:
            wire.ask(CreateStream("orders"))
            wire.ask(topic_of("orders"))
            for _ in range(20):
                assert wire.send("orders", 0, bytes(100)) == 0
        yield broker
        assert broker.stop() == 0
    finally:
        broker.close()


@pytest.mark.slow
@needs_prometheus
def test_a_real_prometheus_scrapes_and_answers_every_query(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = tmp_path / "prometheus.yml"
    text = (DEPLOY / "prometheus.yml").read_text()
    assert "127.0.0.1:8094" in text
    text = text.replace("127.0.0.1:8094", broker.metrics_address).replace("15s", "1s")
    config.write_text(text.replace("alerts.yml", str(ALERTS)))
    server = Prometheus(tmp_path, config, port)
    try:
        assert server.wait_for_value("borzoi_shard_up") == 2
        sends = 'borzoi_request_duration_seconds_count{command="send_messages"}'
        assert server.value(sends) == 20
        assert server.value("borzoi_log_written_messages_total") == 20
        # A second scrape, for rates.
        server.wait_for_value("rate(borzoi_shard_cpu_seconds_total[1m])")
        for query in queries().values():
            server.get("query", query=filled_in(query))
        (group,) = server.get("rules")["groups"]
        assert [rule["name"] for rule in group["rules"] if rule["health"] == "err"] == []
        assert firing(server.get("alerts")) == set()
        check_names(server, Scraped.of(broker.metrics_address))
    finally:
        server.stop()


def filled_in(query: str) -> str:
    """A query as Grafana sends it."""
    return query.replace("$__rate_interval", "1m").replace("$instance", ".*")


def firing(alerts: dict[str, Any]) -> set[str]:
    return {one["labels"]["alertname"] for one in alerts["alerts"] if one["state"] == "firing"}


def check_names(server: Prometheus, found: Scraped) -> None:
    """Everything that was shown was taken."""
    stored = set(server.get("label/__name__/values"))
    shown = {sample.name for family in found.families.values() for sample in family.samples}
    assert shown <= stored
