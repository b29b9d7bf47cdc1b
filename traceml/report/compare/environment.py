"""What else was different: machine, world size, device, batch size, versions, tool."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from traceml.report.compare.side import Side

_SAME_BATCH = 0.01  # the last batch of an epoch may be smaller


@dataclass(frozen=True, slots=True)
class Changed:
    """A fact that is not the same on both sides."""

    what: str
    base: str
    candidate: str

    def __str__(self) -> str:
        return f"{self.what} {self.base} -> {self.candidate}"


def changes(bases: Sequence[Side], candidate: Side) -> tuple[Changed, ...]:
    """What is known on both sides and differs, between baselines as well."""
    return tuple(_changes(bases, candidate))


def _changes(bases: Sequence[Side], candidate: Side) -> Iterator[Changed]:
    facts = [_facts(side) for side in bases]
    new = _facts(candidate)
    for what in facts[0]:
        old = list(dict.fromkeys(each[what] for each in facts if what in each))
        if what in new and old != [new[what]]:
            yield Changed(what, " and ".join(old), new[what])
    yield from _batch(bases, candidate)


def _facts(side: Side) -> dict[str, str]:
    return {"measured by": side.tool, **side.environment}


def _batch(bases: Sequence[Side], candidate: Side) -> Iterator[Changed]:
    old = [side.samples for side in bases if side.samples is not None]
    new = candidate.samples
    if not old or new is None:
        return
    if any(abs(each - new) > _SAME_BATCH * new for each in old):
        shown = dict.fromkeys(f"{each:.4g}" for each in old)
        yield Changed("batch size", " and ".join(shown), f"{new:.4g}")
