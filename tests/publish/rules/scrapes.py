"""What Prometheus scrapes of a run, in promtool's notation: the usual parts of a case."""

from collections.abc import Iterable, Mapping
from itertools import accumulate

MINUTES = 60
ALWAYS = f"x{MINUTES}"
GIB = 2**30

Series = Mapping[str, str]


def constant(value: float | str) -> str:
    return f"{value}{ALWAYS}"


def growing(by_minute: float, start: float = 0) -> str:
    return f"{start}+{by_minute}{ALWAYS}"


def stepping(by_minute: Iterable[float]) -> str:
    """What grows by another amount each minute."""
    return " ".join(f"{value:g}" for value in accumulate(by_minute, initial=0))


def until(minutes: int, before: float, after: float | str) -> str:
    """One value, and another from then on."""
    return f"{before}x{minutes - 1} {after}" + ("" if after == "stale" else ALWAYS)


ENDED = until(18, 1, 0)


def unscraped(series: Series) -> Series:
    """The same, but that a scrape has failed after five minutes."""
    return {name: f"{value.removesuffix(ALWAYS)}x4 stale {value}" for name, value in series.items()}


def one(name: str, value: str, instance: str = "a:1", **labels: str) -> Series:
    """A series of the run `demo`, scraped by the job `traceml`."""
    given = {"run": "demo", "job": "traceml", "instance": instance, **labels}
    shown = ",".join(f'{key}="{text}"' for key, text in given.items())
    return {f"{name}{{{shown}}}": value}


def state(value: str = constant(1), state: str = "running") -> Series:
    return one("traceml_run_state", value, state=state)


def rank(number: int, instance: str = "a:1", node: int = 0, value: str = constant(1)) -> Series:
    return one(
        "traceml_rank_info", value, instance,
        rank=str(number), local_rank=str(number), node=str(node), group="8x1",
    )  # fmt: skip


def score(domain: str, state: str, value: float, severity: int = 1) -> Series:
    """A rule's score, with the severity of its domain, of a run that is running."""
    return {
        **one("traceml_diagnosis_score", constant(value), domain=domain, state=state),
        **one("traceml_diagnosis_severity", constant(severity), domain=domain),
    }


def info(domain: str, state: str, severity: str, rank: str = "", phase: str = "") -> Series:
    labels = {"domain": domain, "state": state, "severity": severity, "rank": rank, "phase": phase}
    return one("traceml_diagnosis_info", constant(1), **labels)


def lost(seconds_a_minute: float, rank: int, phase: str = "forward", **more: str) -> Series:
    value = growing(seconds_a_minute)
    name = "traceml_straggler_lost_seconds_total"
    return one(name, more.pop("value", value), rank=str(rank), phase=phase, **more)


def shares(**phases: float) -> Series:
    """Of a rank whose step takes a second."""
    found = {**rank(0), **one("traceml_rank_step_seconds", constant(1), rank="0")}
    for phase, seconds in phases.items():
        found |= one("traceml_rank_phase_seconds", constant(seconds), rank="0", phase=phase)
    return found


def step(
    number: int,
    forward: float,
    wait: float,
    instance: str = "a:1",
    node: int = 0,
    length: float = 0.1,
) -> Series:
    """A rank, and its typical step: forward, waiting, and the rest."""
    found = {**rank(number, instance, node)}
    found |= one("traceml_rank_step_seconds", constant(length), instance, rank=str(number))
    phases = {"forward": forward, "collective_wait": wait, "other": length - forward - wait}
    for phase, seconds in phases.items():
        value = constant(round(seconds, 6))
        name = "traceml_rank_phase_seconds"
        found |= one(name, value, instance, rank=str(number), phase=phase)
    return found


def expected(ranks: int, reporting: str, instance: str = "a:1") -> Series:
    return {
        **one("traceml_ranks_expected", constant(ranks), instance),
        **one("traceml_ranks_reporting", reporting, instance),
        **one("traceml_run_start_timestamp_seconds", constant(0), instance),
    }
