"""How true the device's clock is: real torch code on the accelerator of the tests."""

from collections.abc import Iterator

from benchmarks.report import Table, progress
from tests.accelerator.build import library
from tests.accelerator.cases import CASES, TRUTH, Figure, figures, run_cases

_QUICK = ("plain", "DDP", "FSDP2, 30 ms")
_HOW = (
    "Milliseconds of a step, the median of its run: true / measured; in bold what is more than "
    "8 % and 2 ms beside the truth. What is true says the device's own log of its streams."
)


def tables(quick: bool) -> Iterator[Table]:
    """One row for each training."""
    library()
    names = _QUICK if quick else list(CASES)
    progress(f"{len(names)} trainings on the fake accelerator")
    rows = [
        [name, *(_cell(figure) for figure in figures(ran).values())]
        for name, ran in run_cases(names).items()
    ]
    yield Table("The device's clock", _HOW, ("training", *TRUTH), rows)


def _cell(figure: Figure) -> str:
    measured = "absent" if figure.measured != figure.measured else f"{figure.measured:.1f}"
    return f"{figure.true:.1f} / " + (measured if figure.is_right else f"**{measured}**")
