import re

import pytest

from tests.builders import (
    Clock,
    end,
    golden_run,
    look,
    make_collector,
    run_of,
    start_ranks,
    timed_records,
)
from tests.publish.oracle import families
from traceml.publish.catalogue import CATALOGUE, WITHOUT_RANKS
from traceml.publish.metric import Metric
from traceml.snapshot import Snapshot
from traceml.wire.columns import PHASES

# What dashboards, alerts and users rely on: name as published, type, labels beside `run`.
CONTRACT: dict[str, tuple[str, tuple[str, ...]]] = {
    "traceml_build_info": ("gauge", ("version",)),
    "traceml_run_info": ("gauge", ("world_size", "nnodes", "strategy", "device", "torch")),
    "traceml_rank_info": ("gauge", ("rank", "local_rank", "node", "gpu_uuid", "group")),
    "traceml_run_state": ("gauge", ("state",)),
    "traceml_run_start_timestamp_seconds": ("gauge", ()),
    "traceml_last_step_timestamp_seconds": ("gauge", ()),
    "traceml_ranks_expected": ("gauge", ()),
    "traceml_ranks_reporting": ("gauge", ()),
    "traceml_steps_completed_total": ("counter", ()),
    "traceml_steps_incomplete_total": ("counter", ("reason",)),
    "traceml_steps_excluded_total": ("counter", ("tag",)),
    "traceml_step_seconds": ("histogram", ()),
    "traceml_step_median_seconds": ("gauge", ()),
    "traceml_step_worst_seconds": ("gauge", ()),
    "traceml_step_worst_rank": ("gauge", ()),
    "traceml_step_skew_ratio": ("gauge", ()),
    "traceml_phase_median_seconds": ("gauge", ("phase",)),
    "traceml_phase_worst_seconds": ("gauge", ("phase",)),
    "traceml_phase_worst_rank": ("gauge", ("phase",)),
    "traceml_phase_skew_ratio": ("gauge", ("phase",)),
    "traceml_phase_share_ratio": ("gauge", ("phase",)),
    "traceml_rank_phase_seconds": ("gauge", ("rank", "phase")),
    "traceml_rank_step_seconds": ("gauge", ("rank",)),
    "traceml_rank_wait_seconds": ("gauge", ("rank", "place")),
    "traceml_device_idle_ratio": ("gauge", ("rank",)),
    "traceml_rank_phase_time_seconds_total": ("counter", ("rank", "phase")),
    "traceml_rank_steps_total": ("counter", ("rank",)),
    "traceml_rank_samples_total": ("counter", ("rank",)),
    "traceml_straggler_lost_seconds_total": ("counter", ("rank", "phase")),
    "traceml_diagnosis": ("gauge", ("domain", "state")),
    "traceml_diagnosis_score": ("gauge", ("domain", "state")),
    "traceml_diagnosis_severity": ("gauge", ("domain",)),
    "traceml_diagnosis_info": ("gauge", ("domain", "state", "severity", "rank", "phase")),
    "traceml_memory_peak_median_bytes": ("gauge", ("kind",)),
    "traceml_memory_peak_worst_bytes": ("gauge", ("kind",)),
    "traceml_memory_peak_worst_rank": ("gauge", ("kind",)),
    "traceml_memory_peak_skew_ratio": ("gauge", ("kind",)),
    "traceml_rank_memory_peak_bytes": ("gauge", ("rank", "kind")),
    "traceml_rank_memory_limit_bytes": ("gauge", ("rank",)),
    "traceml_host_cpu_utilization_ratio": ("gauge", ()),
    "traceml_host_memory_used_bytes": ("gauge", ()),
    "traceml_host_memory_size_bytes": ("gauge", ()),
    "traceml_gpu_utilization_ratio": ("gauge", ("gpu", "gpu_uuid")),
    "traceml_gpu_memory_used_bytes": ("gauge", ("gpu", "gpu_uuid")),
    "traceml_gpu_memory_size_bytes": ("gauge", ("gpu", "gpu_uuid")),
    "traceml_gpu_temperature_celsius": ("gauge", ("gpu", "gpu_uuid")),
    "traceml_gpu_power_watts": ("gauge", ("gpu", "gpu_uuid")),
    "traceml_gpu_sm_clock_hertz": ("gauge", ("gpu", "gpu_uuid")),
    "traceml_gpu_errors_total": ("counter", ("gpu", "gpu_uuid", "kind")),
    "traceml_gpu_failures_total": ("counter", ()),
    "traceml_rank_cpu_seconds_total": ("counter", ("rank",)),
    "traceml_rank_resident_memory_bytes": ("gauge", ("rank",)),
    "traceml_overhead_seconds_total": ("counter", ("rank",)),
    "traceml_records_received_total": ("counter", ("rank",)),
    "traceml_records_dropped_total": ("counter", ("rank", "reason")),
    "traceml_records_unjournaled_total": ("counter", ()),
    "traceml_requests_refused_total": ("counter", ("reason",)),
    "traceml_sidecar_restarts_total": ("counter", ()),
    "traceml_otlp_sent_total": ("counter", ("signal",)),
    "traceml_otlp_lost_total": ("counter", ("signal",)),
}

UNITS = ("seconds", "bytes", "ratio", "celsius", "watts", "hertz")

each_metric = pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)


def published(snapshot: Snapshot) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every series of a Snapshot, by its name and labels."""
    return {
        (sample.name, tuple(sample.labels.items())): sample.value
        for family in families(snapshot)
        for sample in family.samples
    }


def labels_of(snapshot: Snapshot, label: str) -> set[str]:
    """The values of a label; an empty one is none, as for Prometheus."""
    return {dict(labels)[label] for _, labels in published(snapshot) if dict(labels).get(label)}


def ranks_shown(snapshot: Snapshot) -> set[str]:
    """Ranks with series of their own; a diagnosis names whom it has to."""
    return {
        dict(labels)["rank"]
        for name, labels in published(snapshot)
        if "rank" in dict(labels) and name != "traceml_diagnosis_info"
    }


@each_metric
def test_a_metric_is_what_the_contract_says(metric: Metric) -> None:
    name = f"{metric.name}_total" if metric.kind == "counter" else metric.name
    assert CONTRACT[name] == (metric.type, metric.labels)


@each_metric
def test_a_metric_ends_with_its_unit(metric: Metric) -> None:
    suffix = metric.name.rsplit("_", 1)[-1]
    assert metric.unit == (suffix if suffix in UNITS else "")


@each_metric
def test_the_name_ends_with_total_only_where_it_is_published(metric: Metric) -> None:
    assert not metric.name.endswith(("_total", "_count", "_sum", "_bucket"))


@each_metric
def test_the_help_is_made_of_sentences(metric: Metric) -> None:
    assert re.fullmatch(r"[A-Z1].*[^.]\.", metric.help)


@each_metric
def test_names_and_labels_are_snake_case_and_ours(metric: Metric) -> None:
    assert re.fullmatch(r"traceml(_[a-z0-9]+)+", metric.name)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", label) for label in metric.labels)


@each_metric
def test_run_comes_first_and_no_label_twice(metric: Metric) -> None:
    assert metric.all_labels == ("run", *metric.labels)
    assert len(set(metric.all_labels)) == len(metric.all_labels)


def test_each_name_is_declared_once() -> None:
    names = [metric.name for metric in CATALOGUE]
    assert len(set(names)) == len(names)


def test_a_run_has_values_for_the_whole_catalogue() -> None:
    assert [family.name for family in families(golden_run())] == [m.name for m in CATALOGUE]


def test_no_series_stands_twice() -> None:
    samples = [sample for family in families(golden_run()) for sample in family.samples]
    assert len(samples) == len(published(golden_run()))


def test_step_is_no_phase() -> None:
    assert labels_of(golden_run(), "phase") == set(PHASES)
    assert "step" not in PHASES


def test_every_series_carries_the_run() -> None:
    assert all(dict(labels)["run"] == "night" for _, labels in published(run_of(2, name="night")))


@pytest.mark.parametrize("state", ["running", "completed", "failed", "interrupted"])
def test_the_run_is_in_one_state_and_the_others_stand_at_zero(state: str) -> None:
    collector = make_collector(Clock())
    if state != "running":
        end(collector, state)
    states = {
        dict(labels)["state"]: value
        for (name, labels), value in published(look(collector)).items()
        if name == "traceml_run_state"
    }
    expected = {"running": 0, "completed": 0, "failed": 0, "interrupted": 0, state: 1}
    assert states == expected


def test_what_was_not_measured_has_no_series() -> None:
    names = {name for name, _ in published(look(make_collector(Clock())))}
    assert "traceml_run_state" in names
    assert not names & {
        "traceml_run_info",
        "traceml_last_step_timestamp_seconds",
        "traceml_ranks_expected",
        "traceml_step_median_seconds",
        "traceml_step_skew_ratio",
        "traceml_memory_peak_worst_bytes",
        "traceml_host_memory_size_bytes",
    }


def test_a_rank_that_fell_silent_takes_its_series_with_it() -> None:
    clock = Clock()
    collector = make_collector(clock)
    ranks = start_ranks(collector, 2)
    for rank in ranks:
        rank.send(timed_records(range(5)))
    assert ranks_shown(look(collector)) == {"0", "1"}
    clock.advance(60.0)
    ranks[0].beat()
    assert ranks_shown(look(collector)) == {"0"}


def test_a_rank_that_said_goodbye_keeps_its_series_to_the_end() -> None:
    assert ranks_shown(run_of(2)) == {"0", "1"}


def test_the_histogram_is_cumulative_and_ends_with_all_steps() -> None:
    buckets = [
        value
        for (name, _), value in published(golden_run()).items()
        if name == "traceml_step_seconds_bucket"
    ]
    assert buckets == sorted(buckets)
    assert buckets[-1] == golden_run().steps.completed - 2  # two were warm-up


def test_without_ranks_there_is_no_series_of_a_single_ranks_steps() -> None:
    left = {metric.name for metric in CATALOGUE} - {metric.name for metric in WITHOUT_RANKS}
    assert {"traceml_rank_phase_seconds", "traceml_rank_wait_seconds"} <= left
    assert "traceml_device_idle_ratio" in left
    assert all("rank" in metric.labels for metric in CATALOGUE if metric.name in left)


def test_places_of_waiting_add_up_to_it_and_idle_devices_are_told() -> None:
    series = published(golden_run())
    waits = [value for (name, _), value in series.items() if name == "traceml_rank_wait_seconds"]
    phases = [
        value
        for (name, labels), value in series.items()
        if name == "traceml_rank_phase_seconds" and ("phase", "collective_wait") in labels
    ]
    assert sum(waits) == pytest.approx(sum(phases))
    assert labels_of(golden_run(), "place") == {"forward", "backward"}
    assert not [name for name, _ in published(run_of(2)) if name == "traceml_device_idle_ratio"]
