"""Scripts unaware of TraceML, one for each shape of training, under `traceml run`."""

import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.launching import DEADLINE_SECONDS, Finished, Launcher
from tests.shapes import loaders, loops, parallel, public
from tests.shapes.shape import PLANTED, SCRIPTS, Shape
from traceml.sidecar.listen import bind

SHAPES = [*loops.SHAPES, *loaders.SHAPES, *parallel.SHAPES, *public.SHAPES]


def marks(shape: Shape) -> list[pytest.MarkDecorator]:
    """Several processes have no core left for another test beside them."""
    return [pytest.mark.alone] if shape.ranks > 1 else []


@pytest.mark.parametrize(
    "shape", [pytest.param(shape, id=shape.name, marks=marks(shape)) for shape in SHAPES]
)
def test_the_shape_is_traced_and_left_as_it_is(
    launcher: Launcher, plain_output: Callable[[Shape], str], shape: Shape
) -> None:
    run = traced(launcher, shape)
    assert run.exit_code == 0, run.stderr
    expected = plain_output(shape) if shape.processes is None else output_of_ranks(launcher, shape)
    assert losses(run.stdout) == losses(expected)
    assert len(losses(run.stdout)) >= 2
    assert_nothing_of_ours_in_the_terminal(run)
    assert_steps(run, shape)
    assert_notes(run, shape)
    assert_phases(undisturbed(launcher, run, shape), shape)


def traced(launcher: Launcher, shape: Shape) -> Finished:
    return launcher.run(*arguments(shape), environment=shape.environment)


def undisturbed(launcher: Launcher, run: Finished, shape: Shape) -> Finished:
    """The run, or up to two others if something else on the machine was in its way.

    That can only make a phase longer, and not the same one each time.
    """
    for _ in range(2):
        try:
            assert_phases(run, shape)
        except AssertionError:
            shutil.rmtree(run.directory)
            run = traced(launcher, shape)
        else:
            break
    return run


def assert_steps(run: Finished, shape: Shape) -> None:
    steps = run.summary["step_time"]["steps"]
    assert steps["completed"] == shape.steps
    assert steps["incomplete"] == max([shape.steps, *shape.rank_steps.values()]) - shape.steps
    assert steps["excluded"] == dict(shape.excluded)
    expected = {**dict.fromkeys(range(shape.ranks), shape.steps), **shape.rank_steps}
    assert {rank: figures["steps"] for rank, figures in run.ranks.items()} == expected


def assert_phases(run: Finished, shape: Shape) -> None:
    for rank, figures in run.ranks.items():
        phases = figures["phases"]
        assert shape.found <= phases.keys(), rank
        assert not shape.absent & phases.keys(), rank
        if not shape.absent:
            assert sum(phases.values()) == pytest.approx(figures["step_seconds"], rel=0.15)
        if shape.planted is None:
            continue
        if shape.slow_rank in (None, rank):
            assert PLANTED <= phases.pop(shape.planted) <= 1.2 * PLANTED, figures
        else:  # it waits, and that is no work of its own
            assert phases.pop("collective_wait") > PLANTED / 2, figures
        assert all(seconds < PLANTED / 2 for seconds in phases.values()), figures


def assert_notes(run: Finished, shape: Shape) -> None:
    notes = run.summary["notes"]
    if shape.note is None:
        assert notes == []
    else:
        assert any(shape.note in note for note in notes), notes


def assert_nothing_of_ours_in_the_terminal(run: Finished) -> None:
    before, _, _ = run.stderr.partition("\n\nTraceML ")
    ours = [line for line in before.splitlines() if "traceml" in line.lower()]
    assert len(ours) <= 1, run.stderr  # where the metrics are
    assert "grpc" not in run.stderr.lower()


def losses(stdout: str) -> list[str]:
    return sorted(line for line in stdout.splitlines() if line.startswith("loss "))


def arguments(shape: Shape) -> list[str]:
    flags = [] if shape.processes is None else ["--nproc-per-node", str(shape.processes)]
    return [*flags, str(SCRIPTS / f"{shape.script}.py")]


def output_of_ranks(launcher: Launcher, shape: Shape) -> str:
    """What it prints without TraceML; torch itself may abort as it ends, so it has three tries."""
    for _ in range(3):
        ranks = start_ranks(launcher, shape)
        told = [process.communicate(timeout=DEADLINE_SECONDS) for process in ranks]
        if not any(process.returncode for process in ranks):
            return "".join(stdout for stdout, _ in told)
    pytest.fail("\n".join(stderr for _, stderr in told))


def start_ranks(launcher: Launcher, shape: Shape) -> list["subprocess.Popen[str]"]:
    """The processes that torchrun would start."""
    with bind("127.0.0.1", 0) as free:
        port = str(free.getsockname()[1])
    size = str(shape.processes)
    world = {"WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    world |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    command = [sys.executable, str(SCRIPTS / f"{shape.script}.py")]
    return [
        launcher.popen(
            command, {**shape.environment, **world, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        )
        for rank in range(shape.processes or 1)
    ]
