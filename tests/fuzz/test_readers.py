"""The fuzzer's targets by chance alone, for a few seconds, and all that it has ever found."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS

FINDINGS = Path(__file__).parent / "findings"

each_target = pytest.mark.parametrize("name", TARGETS)


@each_target
def test_what_the_code_itself_writes_is_read(name: str) -> None:
    for seed in TARGETS[name].seeds():
        TARGETS[name].read(seed)


@each_target
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3))
def test_whatever_is_changed_in_it_nothing_is_raised(name: str, chance: int, times: int) -> None:
    target, random = TARGETS[name], Random(chance)
    data = random.choice(list(target.seeds()))
    for _ in range(times):
        data = target.mutate(data, random)
    target.read(data)


@pytest.mark.parametrize("finding", sorted(FINDINGS.glob("*-*")), ids=lambda file: file.name)
def test_what_was_found_once_is_read(finding: Path) -> None:
    TARGETS[finding.name.split("-")[0]].read(finding.read_bytes())
