"""What stands below the steps of a run: memory, hosts, GPUs, and TraceML itself."""

from grafana_foundation_sdk.builders import timeseries
from grafana_foundation_sdk.models import units

from traceml.diagnosis.policy import Policy
from traceml.publish.dashboards import style
from traceml.publish.dashboards.frame import Row
from traceml.publish.dashboards.panels import About, lines
from traceml.publish.dashboards.queries import RANKS, RUN, Query, gained, rate
from traceml.publish.dashboards.style import Limits, Property

_POLICY = Policy()
_ANY_LOSS = Limits(warning=1)


def machines() -> Row:
    """What the run needs, and what there is."""
    used, size = (f"traceml_host_memory_{what}_bytes{{{RUN}}}" for what in ("used", "size"))
    gpu_used, gpu_size = (f"traceml_gpu_memory_{what}_bytes{{{RUN}}}" for what in ("used", "size"))
    return "Memory, hosts and GPUs", [
        *_memory(),
        lines(
            About(
                "Hosts",
                "CPU and memory in use on each node. Ranks that fight for cores look slow in all "
                "phases.",
                units.PercentUnit, span=8, limits=Limits(_POLICY.host_cpu, _POLICY.host_memory),
            ),
            Query(f"traceml_host_cpu_utilization_ratio{{{RUN}}}", "{{instance}} CPU"),
            Query(f"{used}\n/ {size}", "{{instance}} memory"),
        ).max(1),
        lines(
            About(
                "GPU use",
                "Share of the time in which a kernel ran, and of the memory in use by all "
                "processes. Nothing where the sidecar sees no GPU.",
                units.PercentUnit, span=8,
                limits=Limits(_POLICY.gpu_memory_high, _POLICY.gpu_memory_very_high),
                empty="no GPU",
            ),
            Query(f"traceml_gpu_utilization_ratio{{{RUN}}}", "{{instance}} GPU {{gpu}} busy"),
            Query(f"{gpu_used}\n/ {gpu_size}", "{{instance}} GPU {{gpu}} memory"),
        ).max(1),
        _heat_and_power(),
    ]  # fmt: skip


def _memory() -> list[timeseries.Panel]:
    peak = f"traceml_rank_memory_peak_bytes{{{RUN}}}"
    limit = f"traceml_rank_memory_limit_bytes{{{RUN}}}"
    return [
        lines(
            About(
                "Memory",
                "Peaks over the last 100 steps, by kind: allocated and reserved on a device, the "
                "resident set on CPU.",
                units.BytesIEC,
            ),
            Query(f"max by (kind) (traceml_memory_peak_worst_bytes{{{RUN}}})", "{{kind}} worst"),
            Query(f"quantile by (kind) (0.5, {peak})", "{{kind}} median"),
        ),
        lines(
            About(
                "Memory, of its limit",
                "The same of the rank that comes closest to its limit: the device's memory; on CPU "
                "what the process may use, which all ranks of the node share.",
                units.PercentUnit,
                limits=Limits(_POLICY.pressure_warning, _POLICY.pressure_critical),
            ),
            Query(
                f"max by (kind) (\n  {peak}\n  / on (run, instance, rank) group_left () {limit}\n)",
                "{{kind}}",
            ),
        ).max(1),
    ]


def _heat_and_power() -> timeseries.Panel:
    power = "/power$/"
    panel = lines(
        About(
            "GPU temperature and power",
            "A hot GPU is slowed down, and its rank with it.",
            units.Celsius,
            span=8,
            limits=Limits(warning=_POLICY.gpu_temperature),
            empty="no GPU",
        ),
        Query(f"traceml_gpu_temperature_celsius{{{RUN}}}", "{{instance}} GPU {{gpu}}"),
        Query(f"traceml_gpu_power_watts{{{RUN}}}", "{{instance}} GPU {{gpu}} power"),
    )
    right = [Property("unit", units.Watt), Property("custom.axisPlacement", "right")]
    return panel.override_by_regexp(power, right)


def telemetry() -> Row:
    """Whether the figures can be trusted, and what they cost."""
    return "Telemetry health", [
        lines(
            About(
                "Cost of TraceML",
                "Share of a rank's time that TraceML takes on the training thread, as it measures "
                "itself.",
                units.PercentUnit, span=8, limits=Limits(0.01, 0.05),
            ),
            Query(rate("traceml_overhead_seconds_total", RANKS, "rank"), "rank {{rank}}"),
        ),
        lines(
            About(
                "Lost or given up",
                "Between two points: records that never arrived, steps that stayed incomplete, "
                "requests refused, records not yet on disk, exports that failed, GPUs gone.",
                units.Short, span=8, limits=_ANY_LOSS,
            ),
            Query(gained("traceml_records_dropped_total", RUN, "run"), "records dropped"),
            Query(gained("traceml_steps_incomplete_total", RUN, "run"), "steps incomplete"),
            Query(gained("traceml_requests_refused_total", RUN, "run"), "requests refused"),
            Query(gained("traceml_records_unjournaled_total", RUN, "run"), "records unjournaled"),
            Query(gained("traceml_otlp_lost_total", RUN, "signal"), "OTLP {{signal}} lost"),
            Query(gained("traceml_gpu_failures_total", RUN, "run"), "GPUs gone"),
        ),
        lines(
            About(
                "Flow",
                "Records from the ranks, steps that are left out of the statistics because of a "
                "tag, and what arrives through OTLP.",
                style.A_SECOND, span=8,
            ),
            Query(rate("traceml_records_received_total", RUN, "run"), "records"),
            Query(rate("traceml_steps_excluded_total", RUN, "run"), "steps left out"),
            Query(rate("traceml_otlp_sent_total", RUN, "signal"), "OTLP {{signal}}"),
        ),
    ]  # fmt: skip
