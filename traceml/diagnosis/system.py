"""System: the machine beside the training. Context; it never outranks a step's finding."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from traceml.diagnosis.context import Measured, Rule
from traceml.diagnosis.finding import INFO, SYSTEM, WARNING, Diagnosis, Finding, title
from traceml.diagnosis.gpu import compared
from traceml.diagnosis.policy import Policy
from traceml.diagnosis.verdict import Verdict, conclude
from traceml.snapshot import GpuUse, HostUse

_IDLE = ("LOW_GPU_UTILIZATION", "MODERATE_GPU_UTILIZATION")


def system(host: HostUse, policy: Policy, steps: Finding | None = None) -> Diagnosis:
    """What stands out on the host and those of its GPUs that are in use; `steps` may say why
    these have little to do.
    """
    if not host.samples:
        nothing = Finding(SYSTEM, "NO_DATA", INFO, "The machine was not looked at yet.")
        return conclude(SYSTEM, (), nothing)
    normal = Finding(SYSTEM, "NORMAL", INFO, "Nothing stands out on this machine.")
    gpus = [_explained(verdict, steps) for verdict in _gpu_verdicts(host, policy)]
    return conclude(SYSTEM, [*gpus, *_host_verdicts(host, policy)], normal)


def _explained(verdict: Verdict, steps: Finding | None) -> Verdict:
    """A GPU that has little to do, with the reason for it."""
    found = verdict.finding
    if found is None or steps is None or verdict.state not in _IDLE:
        return verdict
    why = f"The step's own finding, {title(steps.state)}, says why: {steps.summary}"
    explained = replace(found, summary=f"{found.summary} {why}", action=steps.action)
    return replace(verdict, finding=explained)


def _gpu_verdicts(host: HostUse, policy: Policy) -> Iterator[Verdict]:
    def each(get: Callable[[GpuUse], float | None]) -> list[Measured]:
        values = ((gpu, get(gpu)) for gpu in host.gpus)
        return [Measured(value, f"GPU {gpu.index}") for gpu, value in values if value is not None]

    memory = each(lambda gpu: gpu.memory_ratio)
    use = each(lambda gpu: gpu.utilization_ratio)
    very, low = policy.gpu_memory_very_high, policy.gpu_utilization_low
    full = "{who}'s memory was {value:.0%} full."
    shared = "Something else may use this GPU as well: compare with the ranks' own memory."
    idle = "See the step's own finding for what it waits for."
    held_back = compared(host, policy)
    worst = max(held_back, key=lambda of: of.throttled_ratio, default=None)
    reasons = ", ".join(worst.reasons) if worst else ""
    yield Rule(SYSTEM, "VERY_HIGH_GPU_MEMORY", WARNING, very, full, shared).above(memory)
    yield Rule(
        SYSTEM, "HIGH_GPU_TEMPERATURE", WARNING, policy.gpu_temperature,
        "{who} was {value:.0f} C hot.", "Check its cooling, and its neighbours in the case.",
    ).above(each(lambda gpu: gpu.temperature_celsius))  # fmt: skip
    yield Rule(
        SYSTEM, "GPU_THROTTLED", WARNING, policy.gpu_throttled,
        f"{{who}}'s clocks were held back in {{value:.0%}} of the time ({reasons}).",
        "A GPU that is held back makes its rank a straggler: check power limit and cooling.",
    ).above(Measured(of.throttled_ratio, f"GPU {of.gpu.index}") for of in held_back)  # fmt: skip
    high = Rule(SYSTEM, "HIGH_GPU_MEMORY", INFO, policy.gpu_memory_high, full, shared)
    yield high.above(of for of in memory if of.value < very)
    yield Rule(
        SYSTEM, "HIGH_GPU_POWER", INFO, policy.gpu_power,
        "{who} drew {value:.0%} of its power limit.", "That is what it is for.",
    ).above(each(lambda gpu: gpu.power_ratio))  # fmt: skip
    yield Rule(
        SYSTEM, "LOW_GPU_UTILIZATION", INFO, low,
        "{who} was busy in {value:.0%} of the time only.", idle,
    ).below(use)  # fmt: skip
    yield Rule(
        SYSTEM, "MODERATE_GPU_UTILIZATION", INFO, policy.gpu_utilization_moderate,
        "{who} was busy in {value:.0%} of the time.", idle,
    ).below(of for of in use if of.value >= low)  # fmt: skip


def _host_verdicts(host: HostUse, policy: Policy) -> Iterator[Verdict]:
    memory, cpu = host.memory_ratio, host.cpu_utilization_ratio
    yield Rule(
        SYSTEM, "HIGH_HOST_MEMORY", WARNING, policy.host_memory,
        "{who}'s memory was {value:.0%} full.",
        "Fewer DataLoader workers, or less that they keep in memory.",
    ).above([] if memory is None else [Measured(memory, "The host")])  # fmt: skip
    yield Rule(
        SYSTEM, "HIGH_CPU", INFO, policy.host_cpu,
        "{who}'s CPUs were {value:.0%} busy.",
        "On a machine with GPUs the input may lack CPU time: see the share of dataloader.",
    ).above([] if cpu is None else [Measured(cpu, "The host")])  # fmt: skip
