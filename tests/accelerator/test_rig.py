"""The fake accelerator itself, against what it promises."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.accelerator.checks import CHECKS
from tests.accelerator.plan import Plan
from tests.accelerator.running import Run, run_all, run_pair

pytestmark = [
    pytest.mark.alone,
    pytest.mark.timeout(900),  # the first may have to compile
    pytest.mark.usefixtures("accelerator"),
]

_ALONE = """
import sys, torch
from tests.accelerator.backend import register
fake = register()
comm = fake.Comm(0, 2, sys.argv[1], 0.2)
comm.allreduce([torch.ones(1).to("fake")])
fake.drain()
"""


@pytest.fixture(scope="module")
def failures(accelerator: None) -> dict[str, str]:
    command = [sys.executable, "-m", "tests.accelerator.checks"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr
    told: dict[str, str] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize("check", [check.__name__ for check in CHECKS])
def test_it_keeps_its_promises(check: str, failures: dict[str, str]) -> None:
    assert failures[check] == ""


def test_a_rank_whose_peer_does_not_come_says_so_and_aborts(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _ALONE, str(tmp_path / "group")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode < 0
    assert "rank 0: rank 1 did not come to collective 1" in done.stderr


@pytest.mark.parametrize("shape", ["ddp", "fsdp2"])
def test_two_ranks_wait_for_the_one_that_is_late(shape: str) -> None:
    plan = Plan(shape, collective=3, steps=8, late_phase="backward", late_ms=30)
    in_time, late = run_pair(plan)
    assert waited(in_time) - waited(late) == pytest.approx(30, abs=1)
    lengths = [ran.true_ms(lambda step: step.length) for ran in (in_time, late)]
    assert lengths[0] == pytest.approx(lengths[1], abs=1)
    assert late.true_ms(lambda step: step.own["backward"]) == pytest.approx(plan.backward + 30)


def waited(ran: Run) -> float:
    return ran.true_ms(lambda step: step.collective_wait)


def test_a_run_without_tracer_computes_the_same() -> None:
    plan = Plan("ddp", collective=3, forward=4, backward=8, steps=8)
    traced, bare = run_all([plan, replace(plan, traced=False)], at_once=2)
    assert traced.told["losses"] == bare.told["losses"]
    assert traced.told["counts"]["synchronisations"] == bare.told["counts"]["synchronisations"]
