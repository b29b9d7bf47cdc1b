"""A run that stands still on a device: ranks that wait there do not block in a collective, but
wherever they next need a result, so only the device can tell who waits for whom.
"""

from pathlib import Path

import pytest

from tests.accelerator.launched import start
from tests.accelerator.plan import Plan
from tests.end_to_end.test_stalled import stalled
from tests.launching import Launcher, eventually

pytestmark = [
    pytest.mark.timeout(900),  # the first may have to compile
    pytest.mark.usefixtures("accelerator"),
]


@pytest.mark.parametrize(("where", "phase"), [("fetch", "dataloader"), ("forward", "forward")])
def test_the_rank_that_is_stuck_is_named_and_not_the_one_that_waits(
    launcher: Launcher, tmp_path: Path, where: str, phase: str
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("stalled_seconds = 4\n")
    plan = Plan(
        "ddp", forward=20, backward=40, collective=1, steps=30, reads_loss=True,
        late_phase=where, late_ms=50_000, late_from=20,
    )  # fmt: skip
    run = start(launcher, plan, "--policy", str(policy))
    assert eventually(lambda: stalled(launcher), seconds=90) == ("1", phase)
    run.terminate()
    finished = launcher.finish(run)
    found = finished.summary["primary_diagnosis"]
    assert (found["state"], found["rank"], found["phase"]) == ("STALLED", 1, phase)
    assert finished.ranks[0]["last_phase"] == "collective_wait"
