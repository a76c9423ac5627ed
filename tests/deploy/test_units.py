"""The systemd unit, the container file, compose and Kubernetes: read, linted, their commands run.

There is no container engine where the suite runs. So what the container file sets is given to a
broker in an environment that has nothing else, and its health check is run against that broker.
"""

import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml  # type: ignore[import-untyped]  # has no types of its own

from borzoi.shards.process.service_notice import ServiceNotice
from tests.broker import BrokerProcess, wait_for
from tests.shard_wires import ONE_SHARD
from tests.tidy.repository import ROOT

DEPLOY: Final = ROOT / "docs/deploy"
UNIT: Final = DEPLOY / "borzoi.service"
TIMEOUT_S: Final = 120


# systemd


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket of a service manager."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(TIMEOUT_S)
        yield listening


def test_a_manager_hears_in_which_state_the_broker_is(manager: socket.socket) -> None:
    environ = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "1000000"}
    notice = ServiceNotice(environ)
    notice.ready("serves")
    notice.alive()
    notice.stopping()
    heard = [manager.recv(1000) for _ in range(3)]
    assert heard == [b"READY=1\nSTATUS=serves", b"WATCHDOG=1", b"STOPPING=1"]


@pytest.mark.parametrize(
    "environ", [{}, {"NOTIFY_SOCKET": "/nowhere/at/all"}, {"NOTIFY_SOCKET": "@gone-borzoi-test"}]
)
def test_without_a_manager_nothing_happens(environ: dict[str, str]) -> None:
    notice = ServiceNotice(environ)
    notice.ready("serves")
    notice.alive()


def test_a_watchdog_of_another_process_is_not_fed(manager: socket.socket) -> None:
    where = {"NOTIFY_SOCKET": manager.getsockname()}
    ServiceNotice({**where, "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}).alive()
    ServiceNotice(where).alive()
    ServiceNotice(where).stopping()
    assert manager.recv(1000) == b"STOPPING=1"


@pytest.mark.slow
def test_a_broker_tells_its_manager(manager: socket.socket, tmp_path: Path) -> None:
    notified = ("env", f"NOTIFY_SOCKET={manager.getsockname()}", "WATCHDOG_USEC=30000000")
    broker = BrokerProcess(tmp_path / "data", ONE_SHARD, wrapper=notified)
    try:
        broker.start()
        first = manager.recv(1000).decode()
        while first == "WATCHDOG=1":
            first = manager.recv(1000).decode()
        assert first == f"READY=1\nSTATUS=serves TCP on {broker.address}"
        assert manager.recv(1000) == b"WATCHDOG=1"
        assert broker.stop() == 0
        wait_for(lambda: manager.recv(1000) == b"STOPPING=1")
    finally:
        broker.close()


def options_of(unit: str) -> dict[str, str]:
    return dict(re.findall(r"^([A-Za-z]+)=(.*)$", unit, re.MULTILINE))


def test_the_unit_is_notified_watched_and_hardened() -> None:
    options = options_of(UNIT.read_text())
    assert (options["Type"], options["NotifyAccess"]) == ("notify", "main")
    # The supervisor tells once a second that it is alive.
    assert int(options["WatchdogSec"]) >= 10
    for name in ("NoNewPrivileges", "PrivateTmp", "ProtectHome", "RestrictNamespaces"):
        assert options[name] == "yes", name
    assert options["ProtectSystem"] == "strict"
    assert options["CapabilityBoundingSet"] == ""


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not there")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "borzoi.service"
    # It looks for the program, which is installed nowhere here.
    unit.write_text(UNIT.read_text().replace("/opt/borzoi/bin/borzoi", "/bin/true"))
    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    ours = [line for line in found.stderr.splitlines() if "borzoi.service" in line]
    assert ours == []
    assert found.returncode == 0, found.stderr


# The container file


def instructions(path: Path) -> list[tuple[str, str]]:
    """Its instructions in order; continued lines are joined."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    return [
        (name, rest.strip()) for name, _, rest in (line.partition(" ") for line in text.split("\n"))
        if name
    ]  # fmt: skip


CONTAINER: Final = instructions(DEPLOY / "Containerfile")


def last(name: str) -> str:
    return [rest for found, rest in CONTAINER if found == name][-1]


def environment_of_image() -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S+)", last("ENV")))


def test_the_image_is_built_in_one_stage_and_run_in_another() -> None:
    stages = [rest for name, rest in CONTAINER if name == "FROM"]
    assert len(stages) == 2
    assert all(re.search(r":[\w.-]*\d", stage) for stage in stages), "no version is pinned"
    after = CONTAINER[[number for number, (name, _) in enumerate(CONTAINER) if name == "FROM"][1] :]
    assert not any("gcc" in rest for _, rest in after), "no compiler in what runs"


def test_the_image_runs_as_a_user_without_rights() -> None:
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", last("USER")), "Kubernetes checks numbers only"
    names = [name for name, _ in CONTAINER]
    after = CONTAINER[len(names) - 1 - names[::-1].index("USER") :]
    assert {"RUN", "COPY", "ADD"}.isdisjoint(name for name, _ in after)
    assert "ADD" not in names
    assert not any("sudo" in rest for _, rest in CONTAINER)


def test_commands_are_lists_so_that_signals_reach_the_broker() -> None:
    for name in ("ENTRYPOINT", "CMD"):
        assert last(name).startswith('["')
    assert last("STOPSIGNAL") == "SIGTERM"
    assert '["python"' in last("HEALTHCHECK")


def test_apt_and_pip_leave_nothing_behind() -> None:
    for name, rest in CONTAINER:
        if name == "RUN" and "apt-get install" in rest:
            assert "--no-install-recommends" in rest
            assert "rm -rf /var/lib/apt/lists" in rest
            assert "apt-get update" in rest
        if name == "RUN" and "pip install" in rest:
            assert "--no-cache-dir" in rest


@pytest.mark.slow
def test_what_the_image_sets_is_a_broker_that_is_healthy(tmp_path: Path) -> None:
    """In an environment with nothing else; with ports of its own, and another place for data."""
    image = environment_of_image()
    ports = {name: "127.0.0.1:0" for name in image if name.endswith("_ADDRESS")}
    others = {"IGGY_WEBSOCKET_ADDRESS": "127.0.0.1:0", "IGGY_QUIC_ENABLED": "false"}
    data = tmp_path / "data"
    bare = {"PATH": "/usr/bin:/bin", **image, **ports, **others, **ONE_SHARD}
    bare["IGGY_SYSTEM_PATH"] = str(data)
    wrapper = ("env", "-i", *(f"{name}={value}" for name, value in bare.items()))
    assert (last("CMD"), image["BORZOI_STRICT"]) == ('["serve"]', "true")
    broker = BrokerProcess(data, wrapper=wrapper)
    try:
        broker.start()
        assert set(ports) == {"IGGY_TCP_ADDRESS", "IGGY_HTTP_ADDRESS", "IGGY_METRICS_ADDRESS"}
        assert broker.metrics_address
        assert checked(broker.http_address) == 0
        address = broker.http_address
        assert broker.stop() == 0
        assert checked(address) == 1
    finally:
        broker.close()


def checked(address: str) -> int:
    """What the health check of the image ends with, for a broker at this address."""
    program = re.search(r'"-c", "(.*)"\]', last("HEALTHCHECK"))
    assert program is not None
    text = program[1].replace("127.0.0.1:3000", address)
    ended = subprocess.run(
        [sys.executable, "-c", text], env={}, stderr=subprocess.DEVNULL, timeout=TIMEOUT_S
    )
    return ended.returncode


# Compose and Kubernetes


def test_compose_runs_the_broker_with_prometheus_and_grafana() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services = compose["services"]
    assert services.keys() == {"borzoi", "prometheus", "grafana"}
    broker = services["borzoi"]
    place = DEPLOY / broker["build"]["context"]
    assert (place / broker["build"]["dockerfile"]).resolve() == DEPLOY / "Containerfile"
    assert broker["read_only"] is True
    assert broker["cap_drop"] == ["ALL"]
    for service in services.values():
        assert "build" in service or re.search(r":v?\d", service["image"]), "a pinned version"
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), "on loopback alone"
        for config in service.get("configs", []):
            assert yaml.safe_load(compose["configs"][config["source"]]["content"])
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert (DEPLOY / source).exists() if "/" in source else source in compose["volumes"]


def manifests() -> dict[str, Any]:
    found = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    return {one["kind"]: one for one in found}


def test_kubernetes_has_one_replica_with_a_volume_and_probes() -> None:
    service, stateful = manifests()["Service"], manifests()["StatefulSet"]
    spec = stateful["spec"]
    assert spec["replicas"] == 1, "there is one copy of the data"
    assert spec["serviceName"] == service["metadata"]["name"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    assert service["spec"]["selector"].items() <= labels.items()
    (container,) = spec["template"]["spec"]["containers"]
    exposed = {port["containerPort"] for port in container["ports"]}
    assert {int(port) for port in re.findall(r"(\d+)/tcp", last("EXPOSE"))} == exposed
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] in {port["name"] for port in container["ports"]}
    claimed = {one["metadata"]["name"] for one in spec["volumeClaimTemplates"]}
    volumes = {one["name"] for one in spec["template"]["spec"]["volumes"]} | claimed
    assert {one["name"] for one in container["volumeMounts"]} <= volumes


def test_kubernetes_gives_the_broker_no_rights() -> None:
    pod = manifests()["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert f"{pod['securityContext']['runAsUser']}:" in f"{last('USER')}:"
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "secretKeyRef" in str(container["env"])
