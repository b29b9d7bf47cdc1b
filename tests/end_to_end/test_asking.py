"""A script asks what is to be said of its own run."""

import json

import pytest

from tests.launching import Launcher

ASKING = """\
import json, os, sys, torch, traceml
distributed = int(os.environ.get("WORLD_SIZE", "1")) > 1
if distributed:
    torch.distributed.init_process_group("gloo")
model = torch.nn.Linear(4, 4)
model = torch.nn.parallel.DistributedDataParallel(model) if distributed else model
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
told = [len(traceml.summary())]
for step in range(1, 61):
    with traceml.trace_step(model):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    if step % 20 == 0:
        if distributed:
            torch.distributed.barrier()
        told.append(traceml.summary()["traceml/steps_completed"])
last = traceml.final_summary()
if not distributed or torch.distributed.get_rank() == 0:
    print(json.dumps([told, last["step_time"]["steps"]["completed"], last["run"]["status"]]))
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_the_answer_is_fresh_at_each_call(launcher: Launcher, processes: int) -> None:
    (launcher.folder / "asking.py").write_text(ASKING)
    finished = launcher.run("asking.py", f"--nproc-per-node={processes}")
    assert finished.exit_code == 0, finished.stderr
    (before, *told), completed, status = json.loads(finished.stdout)
    assert (before, status) == (0, "running")
    assert finished.summary["step_time"]["steps"]["completed"] == 60
    if processes == 1:
        assert (told, completed) == ([20, 40, 60], 60)
    else:  # the other rank's latest steps may be on their way
        assert told == sorted(told)
        assert completed <= 60


def test_whoever_is_not_traced_is_told_nothing(launcher: Launcher) -> None:
    script = "import traceml\nprint(traceml.summary(), traceml.final_summary())\n"
    (launcher.folder / "alone.py").write_text(script)
    finished = launcher.run("--disable-traceml", "alone.py")
    assert (finished.exit_code, finished.stdout) == (0, "{} None\n")


def test_a_script_that_asks_without_training_is_told_nothing(launcher: Launcher) -> None:
    script = "import torch, traceml\nprint(traceml.summary(), traceml.final_summary())\n"
    (launcher.folder / "idle.py").write_text(script)
    finished = launcher.run("idle.py")
    assert (finished.exit_code, finished.stdout) == (0, "{} None\n")
