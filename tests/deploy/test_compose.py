"""The compose file mounts what is there, and its Prometheus finds a run on the host."""

import json
import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.conftest import require_program
from tests.deploy.tools import DEPLOY, GRAFANA, passes, read_yaml
from tests.launching import Launcher, eventually
from tests.prometheus import query, started

COMPOSE = DEPLOY / "compose"
SERVICES: dict[str, Any] = read_yaml(COMPOSE / "compose.yaml")["services"]
LIKE_HOME = "127.0.0.1"  # what the gateway to the host is on the host itself

each_service = pytest.mark.parametrize("name", SERVICES)


def mounts(service: str) -> dict[str, str]:
    """Where what lies, in the container and here; its named volumes left out."""
    pairs = [volume.split(":") for volume in SERVICES[service]["volumes"]]
    return {pair[1]: pair[0] for pair in pairs if pair[0].startswith(".")}


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    """Prometheus's folder as the container sees it."""
    folder = tmp_path / "etc"
    for inside, here in mounts("prometheus").items():
        target = folder / Path(inside).relative_to("/etc/prometheus")
        source = COMPOSE / here
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    return folder / "prometheus.yml"


@each_service
def test_a_service_has_a_pinned_version(name: str) -> None:
    assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+", SERVICES[name]["image"])


@each_service
def test_a_service_mounts_what_is_there_and_cannot_change_it(name: str) -> None:
    for inside, here in mounts(name).items():
        assert (COMPOSE / here).exists(), here
        assert f"{here}:{inside}:ro" in SERVICES[name]["volumes"]


@each_service
def test_a_service_can_be_reached_from_this_machine_alone(name: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))


def test_promtool_finds_nothing_in_what_is_mounted(promtool: str, configuration: Path) -> None:
    (configuration.parent / "targets" / "host" / "train.json").write_text("[]")
    (configuration.parent / "targets" / "nodes" / "node.json").write_text("[]")
    checked = passes(promtool, "check", "config", "--lint=all", "--lint-fatal", configuration)
    assert checked.count("SUCCESS") == 4  # itself, twice, and the rules it names


def test_amtool_finds_nothing() -> None:
    passes(require_program("amtool"), "check-config", COMPOSE / "alertmanager.yml")


def test_alerts_take_the_same_ways_as_in_the_plain_configuration() -> None:
    ours, plain = (
        read_yaml(DEPLOY / folder / "alertmanager.yml") for folder in ("compose", "prometheus")
    )
    assert ours["route"] == plain["route"]
    assert ours["inhibit_rules"] == plain["inhibit_rules"]


def test_prometheus_finds_what_announces_itself_on_the_host(
    launcher: Launcher, prometheus: str, configuration: Path
) -> None:
    text = configuration.read_text().replace("host.docker.internal", LIKE_HOME)
    configuration.write_text(re.sub(r"_interval: 15s", "_interval: 1s", text))
    launcher.start_sidecar()
    port = urlsplit(launcher.sidecar()["metrics"]).port
    targets = configuration.parent / "targets" / "host" / "train.json"
    announced = f"a-name-that-only-the-host-knows:{port}"
    targets.write_text(json.dumps([{"targets": [announced], "labels": {}}]))

    with started(prometheus, configuration) as server:
        (found,) = eventually(lambda: query(server, 'up{job="traceml"} == 1'))
        assert found["metric"]["instance"] == announced
        assert eventually(lambda: query(server, 'traceml_run_state{run="test",job="traceml"}'))


def test_grafana_s_data_sources_are_services_of_this_file() -> None:
    sources = read_yaml(GRAFANA / "provisioning" / "datasources" / "traceml.yml")["datasources"]
    assert {urlsplit(source["url"]).hostname for source in sources} <= SERVICES.keys()


def test_grafana_finds_the_dashboards_where_they_are_mounted() -> None:
    (provider,) = read_yaml(GRAFANA / "provisioning" / "dashboards" / "traceml.yml")["providers"]
    here = mounts("grafana")[provider["options"]["path"]]
    assert (COMPOSE / here).resolve() == GRAFANA / "dashboards"


def test_the_runbooks_that_panels_link_to_are_among_what_grafana_serves() -> None:
    dashboard = json.loads((GRAFANA / "dashboards" / "run-overview.json").read_text())
    (variable,) = [each for each in dashboard["templating"]["list"] if each["name"] == "runbooks"]
    here = mounts("grafana")[f"/usr/share/grafana{variable['query']}"]
    assert (COMPOSE / here).resolve() == DEPLOY.parent / "docs" / "runbooks"


def test_the_collector_s_pipelines_are_made_of_what_it_has() -> None:
    collector = read_yaml(COMPOSE / "otel-collector.yaml")
    for pipeline in collector["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert set(pipeline[kind]) <= collector[kind].keys()


def test_prometheus_asks_the_collector_where_it_answers() -> None:
    collector = read_yaml(COMPOSE / "otel-collector.yaml")
    jobs = {job["job_name"]: job for job in read_yaml(COMPOSE / "prometheus.yml")["scrape_configs"]}
    (asked,) = jobs["traceml-otlp"]["static_configs"][0]["targets"]
    assert asked.split(":")[1] == collector["exporters"]["prometheus"]["endpoint"].split(":")[1]
    assert jobs["traceml-otlp"]["honor_labels"] is True  # `instance` is the sidecar's own
