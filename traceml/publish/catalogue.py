"""Every metric TraceML publishes, each declared once.

Names, types, units and labels are a contract with dashboards and alerts.
Base units, ratios from 0 to 1, no sentinels: what was not measured is absent.
"""

from traceml import __version__
from traceml.publish import read
from traceml.publish.metric import Metric

CATALOGUE: tuple[Metric, ...] = (
    Metric(
        "traceml_build_info", "gauge", "", ("version",),
        "The version of TraceML, constant 1.",
        read.info(lambda s: (__version__,)),
    ),
    Metric(
        "traceml_run_info", "gauge", "", ("world_size", "nnodes", "strategy", "device", "torch"),
        "What kind of run this is, constant 1. Absent until a rank has reported.",
        lambda s: [] if s.run.world_size is None else read.info(
            lambda s: (s.run.world_size, s.run.nnodes, s.run.strategy, s.run.device, s.run.torch)
        )(s),
    ),
    Metric(
        "traceml_rank_info", "gauge", "", ("rank", "local_rank", "node", "gpu_uuid", "group"),
        "A reporting rank, constant 1. Ranks of one group hold the same share of the model.",
        read.rank_info,
    ),
    Metric(
        "traceml_run_state", "state", "", ("state",),
        "1 for the state the run is in, 0 for the others.",
        read.run_state,
    ),
    Metric(
        "traceml_run_start_timestamp_seconds", "gauge", "seconds", (),
        "Unix time at which the run was started.",
        read.one(lambda s: s.run.started_at),
    ),
    Metric(
        "traceml_last_step_timestamp_seconds", "gauge", "seconds", (),
        "Unix time at which the last step was completed by all ranks. Absent before the first.",
        read.one(lambda s: s.last_step_shown_at),
    ),
    Metric(
        "traceml_ranks_expected", "gauge", "", (),
        "How many ranks this node should have; 0 once all have said goodbye.",
        read.one(lambda s: s.ranks_expected),
        counts="rank",
    ),
    Metric(
        "traceml_ranks_reporting", "gauge", "", (),
        "How many ranks of this node were heard of in the last seconds.",
        read.one(lambda s: s.ranks_reporting),
        counts="rank",
    ),
    Metric(
        "traceml_steps_completed", "counter", "", (),
        "Steps that every rank of this node has reported, tagged ones included. A rank that the "
        "others went on without is not waited for.",
        read.one(lambda s: s.steps.completed),
        counts="step",
    ),
    Metric(
        "traceml_steps_incomplete", "counter", "", ("reason",),
        "Steps given up because a rank's record was lost (missing), because a rank stayed too far "
        "behind (overflow), or because the ranks were restarted (restart).",
        read.by_key(lambda s: s.steps.incomplete),
        counts="step",
    ),
    Metric(
        "traceml_steps_excluded", "counter", "", ("tag",),
        "Completed steps left out of the statistics, by the reason for it.",
        read.by_key(lambda s: s.steps.excluded),
        counts="step",
    ),
    Metric(
        "traceml_step_seconds", "histogram", "seconds", (),
        "Length of completed steps, tagged ones left out; a step's length is its maximum over "
        "ranks.",
        read.one(lambda s: s.steps.histogram),
    ),
    Metric(
        "traceml_step_median_seconds", "gauge", "seconds", (),
        "Step time of the median rank over the window.",
        read.step("median"),
    ),
    Metric(
        "traceml_step_worst_seconds", "gauge", "seconds", (),
        "Step time of the slowest rank over the window.",
        read.step("worst"),
    ),
    Metric(
        "traceml_step_worst_rank", "gauge", "", (),
        "The rank with the longest step time over the window.",
        read.step("worst_rank"),
        counts="rank",
    ),
    Metric(
        "traceml_step_skew_ratio", "gauge", "ratio", (),
        "How much longer the slowest rank's step is than the median rank's.",
        read.step("skew_ratio"),
    ),
    Metric(
        "traceml_phase_median_seconds", "gauge", "seconds", ("phase",),
        "Time of the median rank in a phase of the step, over the window.",
        read.phase("median"),
    ),
    Metric(
        "traceml_phase_worst_seconds", "gauge", "seconds", ("phase",),
        "Time of the slowest rank in a phase of the step, over the window.",
        read.phase("worst"),
    ),
    Metric(
        "traceml_phase_worst_rank", "gauge", "", ("phase",),
        "The rank that spends the most time in a phase, over the window.",
        read.phase("worst_rank"),
        counts="rank",
    ),
    Metric(
        "traceml_phase_skew_ratio", "gauge", "ratio", ("phase",),
        "How much more time the slowest rank spends in a phase than the median rank.",
        read.phase("skew_ratio"),
    ),
    Metric(
        "traceml_phase_share_ratio", "gauge", "ratio", ("phase",),
        "A phase's share of the typical step: median rank's phase over median rank's step.",
        read.phase_shares,
    ),
    Metric(
        "traceml_rank_phase_seconds", "gauge", "seconds", ("rank", "phase"),
        "A rank's typical time in a phase: mean over the window, its slowest twentieth capped.",
        read.rank_phases,
    ),
    Metric(
        "traceml_rank_step_seconds", "gauge", "seconds", ("rank",),
        "A rank's typical step time: mean over the window, its slowest twentieth capped.",
        read.rank_steps,
    ),
    Metric(
        "traceml_rank_wait_seconds", "gauge", "seconds", ("rank", "place"),
        "Where a rank waits for others: its typical collective_wait over the window by the part of "
        "the step it lies in (forward, backward, optimizer, other). Absent where waits are not "
        "measured, and for a place that was never waited in.",
        read.rank_waits,
    ),
    Metric(
        "traceml_device_idle_ratio", "gauge", "ratio", ("rank",),
        "Share of a rank's typical step in which its device had done all that the CPU had queued, "
        "within forward, backward and optimizer, over the window: an upper bound. Absent on CPU.",
        read.rank_idle,
    ),
    Metric(
        "traceml_rank_phase_time_seconds", "counter", "seconds", ("rank", "phase"),
        "Time a rank has spent in a phase so far, all of its steps included.",
        read.rank_by_key(lambda of: of.phase_seconds),
    ),
    Metric(
        "traceml_rank_steps", "counter", "", ("rank",),
        "Steps a rank has reported so far.",
        read.rank(lambda of: of.steps),
        counts="step",
    ),
    Metric(
        "traceml_rank_samples", "counter", "", ("rank",),
        "Samples a rank has fetched so far: the leading dimensions of its batches.",
        read.rank(lambda of: of.samples),
        counts="sample",
    ),
    Metric(
        "traceml_straggler_lost_seconds", "counter", "seconds", ("rank", "phase"),
        "Time that the other ranks have waited for this one so far, by the phase in which it was "
        "slow: in each completed step that is not tagged, the largest own work over the median of "
        "the others.",
        read.rank_by_key(lambda of: of.lost_seconds),
    ),
    Metric(
        "traceml_diagnosis", "state", "", ("domain", "state"),
        "1 for the primary diagnosis of each domain over the window, 0 for the others.",
        read.diagnosis_states,
    ),
    Metric(
        "traceml_diagnosis_score", "gauge", "", ("domain", "state"),
        "What a rule measures over its warning threshold: from 1 on it holds. Absent where the "
        "rule cannot judge.",
        read.diagnosis_scores,
    ),
    Metric(
        "traceml_diagnosis_severity", "gauge", "", ("domain",),
        "Severity of the primary diagnosis: 0 info, 1 warning, 2 critical.",
        read.diagnosis_severity,
    ),
    Metric(
        "traceml_diagnosis_info", "gauge", "", ("domain", "state", "severity", "rank", "phase"),
        "The primary diagnosis of each domain, constant 1; rank and phase are empty where none is "
        "to blame.",
        read.diagnosis_info,
    ),
    Metric(
        "traceml_memory_peak_median_bytes", "gauge", "bytes", ("kind",),
        "Peak memory of the median rank over the window. On CPU the resident set stands in.",
        read.memory("median"),
    ),
    Metric(
        "traceml_memory_peak_worst_bytes", "gauge", "bytes", ("kind",),
        "Peak memory of the rank with the most, over the window.",
        read.memory("worst"),
    ),
    Metric(
        "traceml_memory_peak_worst_rank", "gauge", "", ("kind",),
        "The rank with the highest peak memory over the window.",
        read.memory("worst_rank"),
        counts="rank",
    ),
    Metric(
        "traceml_memory_peak_skew_ratio", "gauge", "ratio", ("kind",),
        "How much higher the highest rank's peak memory is than the median rank's.",
        read.memory("skew_ratio"),
    ),
    Metric(
        "traceml_rank_memory_peak_bytes", "gauge", "bytes", ("rank", "kind"),
        "A rank's peak memory over the window.",
        read.rank_memory,
    ),
    Metric(
        "traceml_rank_memory_limit_bytes", "gauge", "bytes", ("rank",),
        "Memory of a rank's device; on CPU what its process may use, together with all others.",
        read.rank(lambda of: of.memory_limit_bytes),
    ),
    Metric(
        "traceml_host_cpu_utilization_ratio", "gauge", "ratio", (),
        "Share of this host's CPU time that was in use since the last sample.",
        read.host(lambda of: of.cpu_utilization_ratio),
    ),
    Metric(
        "traceml_host_memory_used_bytes", "gauge", "bytes", (),
        "Memory in use on this host.",
        read.host(lambda of: of.memory_used_bytes),
    ),
    Metric(
        "traceml_host_memory_size_bytes", "gauge", "bytes", (),
        "Memory this host has.",
        read.host(lambda of: of.memory_size_bytes),
    ),
    Metric(
        "traceml_gpu_utilization_ratio", "gauge", "ratio", ("gpu", "gpu_uuid"),
        "Share of the time in which a kernel ran on this GPU, as NVML tells.",
        read.gpu(lambda of: of.utilization_ratio),
    ),
    Metric(
        "traceml_gpu_memory_used_bytes", "gauge", "bytes", ("gpu", "gpu_uuid"),
        "Memory in use on this GPU, by all processes.",
        read.gpu(lambda of: of.memory_used_bytes),
    ),
    Metric(
        "traceml_gpu_memory_size_bytes", "gauge", "bytes", ("gpu", "gpu_uuid"),
        "Memory this GPU has.",
        read.gpu(lambda of: of.memory_size_bytes),
    ),
    Metric(
        "traceml_gpu_temperature_celsius", "gauge", "celsius", ("gpu", "gpu_uuid"),
        "Temperature of this GPU.",
        read.gpu(lambda of: of.temperature_celsius),
    ),
    Metric(
        "traceml_gpu_power_watts", "gauge", "watts", ("gpu", "gpu_uuid"),
        "Power this GPU draws.",
        read.gpu(lambda of: of.power_watts),
    ),
    Metric(
        "traceml_gpu_sm_clock_hertz", "gauge", "hertz", ("gpu", "gpu_uuid"),
        "Clock of this GPU's streaming multiprocessors.",
        read.gpu(lambda of: of.sm_clock_hertz),
    ),
    Metric(
        "traceml_gpu_errors", "counter", "", ("gpu", "gpu_uuid", "kind"),
        "Errors of this GPU since the run began: memory errors that its ECC has corrected "
        "(ecc_corrected) or could not correct (ecc_uncorrected), and those that the driver reports "
        "(xid). Kinds that it does not tell are absent.",
        read.gpu_by_key(lambda of: of.errors),
        counts="error",
    ),
    Metric(
        "traceml_gpu_failures", "counter", "", (),
        "GPUs that could no longer be read: lost, or their driver gone.",
        read.one(lambda s: None if s.host is None else s.host.gpu_failures),
        counts="gpu",
    ),
    Metric(
        "traceml_rank_cpu_seconds", "counter", "seconds", ("rank",),
        "User and system CPU time of a rank's process so far.",
        read.rank(lambda of: of.cpu_seconds),
    ),
    Metric(
        "traceml_rank_resident_memory_bytes", "gauge", "bytes", ("rank",),
        "Resident set of a rank's process.",
        read.rank(lambda of: of.resident_bytes),
    ),
    Metric(
        "traceml_overhead_seconds", "counter", "seconds", ("rank",),
        "Time TraceML itself has taken on a rank's training thread so far, as it measures itself.",
        read.rank(lambda of: of.overhead_seconds),
    ),
    Metric(
        "traceml_records_received", "counter", "", ("rank",),
        "Step records received from a rank so far, duplicates not counted.",
        read.rank(lambda of: of.records_received),
        counts="record",
    ),
    Metric(
        "traceml_records_dropped", "counter", "", ("rank", "reason"),
        "Step records lost so far: overwritten in the rank's ring, given up while the sidecar did "
        "not answer (backlog), too late for their step, malformed, acknowledged by a sidecar that "
        "died before it could write them (unjournaled), or of a process while another one reported "
        "as the same rank (superseded).",
        read.rank_by_key(lambda of: of.records_dropped),
        counts="record",
    ),
    Metric(
        "traceml_records_unjournaled", "counter", "", (),
        "Step records taken while the journal could not be written; they are lost only if the "
        "sidecar dies before it can be.",
        read.one(lambda s: s.telemetry.records_unjournaled),
        counts="record",
    ),
    Metric(
        "traceml_requests_refused", "counter", "", ("reason",),
        "Requests to the sidecar that it did not take, by the reason for it.",
        read.by_key(lambda s: s.telemetry.requests_refused),
        counts="request",
    ),
    Metric(
        "traceml_sidecar_restarts", "counter", "", (),
        "How often the sidecar of this run was started again.",
        read.one(lambda s: s.telemetry.sidecar_restarts),
        counts="restart",
    ),
    Metric(
        "traceml_otlp_sent", "counter", "", ("signal",),
        "What arrived through OTLP so far: data points (metrics), and steps that stood out "
        "(traces). Absent where nothing is sent.",
        read.by_key(lambda s: {} if s.telemetry.exports is None else s.telemetry.exports.sent),
    ),
    Metric(
        "traceml_otlp_lost", "counter", "", ("signal",),
        "What was to be sent through OTLP and did not arrive: data points (metrics), and steps "
        "that stood out (traces). Counters lose nothing by that: the next ones hold it.",
        read.by_key(lambda s: {} if s.telemetry.exports is None else s.telemetry.exports.lost),
    ),
)  # fmt: skip

_OF_ONE_RANK = ("traceml_rank_", "traceml_device_")

WITHOUT_RANKS = tuple(m for m in CATALOGUE if not m.name.startswith(_OF_ONE_RANK))
