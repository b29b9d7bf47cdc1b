"""What a step is made of, seen on real runs."""

import pytest

from tests.launching import SCRIPTS, Launcher, eventually

pytestmark = pytest.mark.alone


def test_a_cold_first_batch_is_left_out_and_a_pause_between_steps_is_in_other(
    launcher: Launcher,
) -> None:
    finished = launcher.run(
        str(SCRIPTS / "training.py"), "--args", "--cold", "2", "--pause", "0.03"
    )
    figures = finished.summary["step_time"]
    assert figures["steps"] == {"completed": 40, "incomplete": 0, "excluded": {"warmup": 1}}
    assert figures["phases"]["dataloader"]["worst_seconds"] < 0.5
    assert figures["step_quantiles_seconds"]["max"] < 2
    assert figures["phases"]["other"]["median_seconds"] > 0.029
    assert figures["step"]["median_seconds"] > 0.03


def test_the_cold_first_batch_is_still_in_the_rank_s_own_account(launcher: Launcher) -> None:
    process = launcher.start(
        str(SCRIPTS / "training.py"), "--args", "--cold", "2", "--hold", str(launcher.folder)
    )

    def fetching() -> float | None:
        for line in launcher.metrics().splitlines():
            if line.startswith("traceml_rank_phase_time_seconds_total") and "dataloader" in line:
                return float(line.split()[-1])
        return None

    assert eventually(fetching) > 2
    process.terminate()
    assert launcher.finish(process).exit_code == 143


@pytest.mark.parametrize("processes", [1, 2])
def test_the_phases_of_a_step_add_up_to_it(launcher: Launcher, processes: int) -> None:
    finished = launcher.run(f"--nproc-per-node={processes}", str(SCRIPTS / "training.py"))
    for rank in finished.ranks.values():
        # Each figure is a mean whose slowest twentieth is capped, so sums agree only nearly.
        assert sum(rank["phases"].values()) == pytest.approx(rank["step_seconds"], rel=0.1)


def test_what_was_not_measured_is_absent(launcher: Launcher) -> None:
    phases = launcher.run(str(SCRIPTS / "training.py")).summary["step_time"]["phases"]
    assert set(phases) == {"dataloader", "forward", "backward", "optimizer", "other"}


def test_every_one_of_20000_steps_far_below_a_millisecond_is_received(launcher: Launcher) -> None:
    finished = launcher.run(str(SCRIPTS / "fast.py"), "--", "20000")
    telemetry = finished.summary["telemetry"]
    assert finished.stdout == ""
    assert telemetry["records_received"] == 20_000
    assert telemetry["records_dropped"] == 0
    assert finished.summary["step_time"]["steps"]["completed"] == 20_000
    own_lines = [line for line in finished.stderr.splitlines() if line.startswith("traceml:")]
    assert len(own_lines) == 1


def test_a_program_that_the_training_starts_is_no_rank_of_it(launcher: Launcher) -> None:
    steps = launcher.run(str(SCRIPTS / "starts_another.py")).summary["step_time"]["steps"]
    assert (steps["completed"], steps["incomplete"]) == (30, 0)
