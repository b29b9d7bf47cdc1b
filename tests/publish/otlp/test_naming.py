import pytest

from traceml.publish.catalogue import CATALOGUE
from traceml.publish.metric import Metric
from traceml.publish.otlp import naming

# As OpenTelemetry's specification on compatibility with Prometheus has them.
SUFFIXES = {"s": "seconds", "By": "bytes", "Cel": "celsius", "W": "watts", "Hz": "hertz"}

each_metric = pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)


def translated(name: str, unit: str, metric: Metric) -> str:
    """The name that a Prometheus gives to an OTLP metric, suffixes and all."""
    words = [name.replace(".", "_")]
    if unit and not unit.startswith("{") and unit != "1":
        words.append(SUFFIXES[unit])
    if unit == "1" and metric.kind == "gauge":
        words.append("ratio")
    if metric.kind == "counter":
        words.append("total")
    return "_".join(words)


@each_metric
def test_a_name_translates_to_the_one_prometheus_scrapes(metric: Metric) -> None:
    scraped = f"{metric.name}_total" if metric.kind == "counter" else metric.name
    assert translated(naming.name(metric), naming.unit(metric), metric) == scraped


@each_metric
def test_no_two_attributes_of_a_metric_share_a_name(metric: Metric) -> None:
    names = naming.attributes(metric)
    assert len(set(names)) == len(metric.all_labels)


def test_names_read_as_the_contract_says() -> None:
    of = {metric.name: metric for metric in CATALOGUE}
    median = of["traceml_phase_median_seconds"]
    assert (naming.name(median), naming.unit(median)) == ("traceml.phase.median", "s")
    assert naming.unit(of["traceml_step_worst_rank"]) == "{rank}"
    assert naming.unit(of["traceml_diagnosis_score"]) == ""
    assert "hw.id" in naming.attributes(of["traceml_gpu_power_watts"])
