"""What a Grafana container starts with fits the dashboards, and the configurations around it."""

from pathlib import Path
from typing import Any

import yaml

from tests.grafana import boards
from tests.grafana.boards import NAMES

ROOT = Path(__file__).parents[3]
PROVISIONING = ROOT / "grafana" / "provisioning"


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def sources() -> dict[str, dict[str, Any]]:
    listed = read(PROVISIONING / "datasources" / "traceml.yml")["datasources"]
    return {source["uid"]: source for source in listed}


def test_an_exemplar_leads_to_a_data_source_that_is_there() -> None:
    prometheus = sources()["traceml-prometheus"]["jsonData"]
    (destination,) = prometheus["exemplarTraceIdDestinations"]
    assert destination["name"] == "trace_id"
    assert sources()[destination["datasourceUid"]]["type"] == "tempo"
    assert prometheus["alertmanagerUid"] in sources()


def test_rates_are_taken_over_what_prometheus_scrapes() -> None:
    scraped = read(ROOT / "deploy" / "prometheus" / "prometheus.yml")["global"]["scrape_interval"]
    assert sources()["traceml-prometheus"]["jsonData"]["timeInterval"] == scraped


def test_the_only_prometheus_is_the_one_that_comes_up() -> None:
    (default,) = (source for source in sources().values() if source.get("isDefault"))
    assert default["type"] == "prometheus"
    for name in NAMES:
        variable = boards.read(name)["templating"]["list"][0]
        assert (variable["name"], variable["query"]) == ("datasource", default["type"])


def test_dashboards_come_from_their_folder_into_one_of_their_own() -> None:
    (provider,) = read(PROVISIONING / "dashboards" / "traceml.yml")["providers"]
    assert provider["folder"] == "TraceML"
    assert provider["options"]["path"] == "/etc/grafana/dashboards"
    assert not provider["allowUiUpdates"]  # a change belongs into the code
