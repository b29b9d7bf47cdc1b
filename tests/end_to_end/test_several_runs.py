import json
from functools import partial

from tests.launching import SCRIPTS, Launcher, eventually, fetch
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


def has_completed_a_step(url: str) -> bool:
    return "traceml_last_step_timestamp_seconds{" in fetch(url)
