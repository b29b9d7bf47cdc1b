import json
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tests.launching import SCRIPTS, Finished, Launcher, eventually, fetch
from traceml.sidecar.listen import bind

TRAINING = str(SCRIPTS / "training.py")


def test_a_taken_port_gives_way_to_the_next_free_one_and_it_is_named(launcher: Launcher) -> None:
    with bind("127.0.0.1", 20_464) as taken:
        port = taken.getsockname()[1]
        finished = launcher.finish(launcher.start(TRAINING, port=port))
    assert finished.exit_code == 0
    named = int(finished.stderr.split("http://127.0.0.1:")[1].split("/")[0])
    assert port < named < port + 100


def test_two_runs_at_once_train_and_serve_side_by_side(launcher: Launcher) -> None:
    hold = launcher.folder / "hold"
    hold.touch()
    runs = [launcher.start(TRAINING, "--", "--hold", str(hold), port=21_464) for _ in range(2)]
    logs = launcher.folder / "logs"
    descriptions = eventually(
        lambda: found if len(found := list(logs.glob("*/sidecar.json"))) == 2 else None
    )
    urls = {json.loads(file.read_text())["metrics"] for file in descriptions}
    assert len(urls) == 2
    for url in urls:
        eventually(partial(has_completed_a_step, url))
    hold.unlink()
    assert [launcher.finish(run).exit_code for run in runs] == [0, 0]
    assert sorted(folder.name for folder in logs.iterdir()) == ["test", "test-2"]
    assert all((folder / "final_summary.json").exists() for folder in logs.iterdir())


def test_ports_that_others_hold_keep_no_training_from_starting(
    launcher: Launcher, tmp_path: Path
) -> None:
    """They accept, and never answer."""
    script = tmp_path / "quick.py"
    script.write_text("print('trained')")
    with ExitStack() as held:
        ports = [held.enter_context(bind("127.0.0.1", 23_464)).getsockname()[1] for _ in range(100)]
        finished = launcher.finish(launcher.start(str(script), port=min(ports)))
    assert (finished.exit_code, finished.stdout) == (0, "trained\n")
    named = int(finished.stderr.split("http://127.0.0.1:")[1].split("/")[0])
    assert named not in ports


TWO_AT_ONCE = """
import subprocess, sys
training, hold, *losses = sys.argv[1:]
flags = ["--pause", "0.002", "--hold", hold]
for started in [
    subprocess.Popen([sys.executable, training, *flags, "--losses", file]) for file in losses
]:
    started.wait()
"""


def test_of_two_trainings_under_one_run_every_step_is_in_the_figures_or_counted_as_dropped(
    launcher: Launcher, tmp_path: Path, hold: Path
) -> None:
    script = tmp_path / "two.py"
    script.write_text(TWO_AT_ONCE)
    losses = [tmp_path / "first", tmp_path / "second"]
    run = launcher.start(str(script), "--", TRAINING, str(hold), *map(str, losses))
    dropped = 'traceml_records_dropped_total{rank="0",reason="superseded",run="test"}'
    eventually(lambda: (launcher.value(dropped) or 0) > 20, seconds=120)
    before = launcher.completed()
    eventually(lambda: launcher.completed() > before + 20)
    hold.unlink()
    finished = launcher.finish(run)
    assert finished.exit_code == 0
    trained = sum(len(file.with_suffix(".0").read_text().splitlines()) for file in losses)
    telemetry = finished.summary["telemetry"]
    completed = finished.summary["step_time"]["steps"]["completed"]
    assert completed + telemetry["records_dropped_by_reason"]["superseded"] == trained
    assert any("More than one process reported as rank 0" in note for note in notes_of(finished))


def notes_of(finished: Finished) -> list[str]:
    notes: list[str] = finished.summary["notes"]
    return notes


def has_completed_a_step(url: str) -> bool:
    return "traceml_last_step_timestamp_seconds{" in fetch(url)
