"""The forms of `traceml run`, on a script that prints what it got."""

import json
import sys
from pathlib import Path

import pytest

from tests.launching import Launcher

SHOW = "import json, os, sys\nprint(json.dumps([sys.argv[1:], __name__, os.environ.get('RANK')]))\n"


@pytest.fixture
def script(launcher: Launcher) -> str:
    (launcher.folder / "show.py").write_text(SHOW)
    (launcher.folder / "package").mkdir()
    (launcher.folder / "package" / "module.py").write_text(SHOW)
    return "show.py"


@pytest.mark.parametrize(
    ("arguments", "received"),
    [
        (("show.py",), []),
        (("show.py", "--mode=summary", "--args", "--lr", "0.1"), ["--lr", "0.1"]),
        (("--mode", "summary", "show.py", "--", "--lr", "0.1"), ["--lr", "0.1"]),
        (("show.py", "--", "--args", "--", "-m"), ["--args", "--", "-m"]),
        (("-m", "package.module"), []),
        (("-m", "package.module", "--", "x"), ["x"]),
        (("--disable-traceml", "show.py", "--", "--lr"), ["--lr"]),
    ],
)
def test_the_script_gets_its_own_arguments_and_no_others(
    launcher: Launcher, script: str, arguments: tuple[str, ...], received: list[str]
) -> None:
    finished = launcher.run(*arguments)
    assert finished.exit_code == 0, finished.stderr
    assert json.loads(finished.stdout) == [received, "__main__", None]


@pytest.mark.parametrize("target", [("show.py",), ("-m", "package.module")])
def test_several_processes_run_through_torchrun(
    launcher: Launcher, script: str, target: tuple[str, ...]
) -> None:
    finished = launcher.run("--nproc_per_node=2", "--max-restarts=0", *target, "--", "--lr")
    assert finished.exit_code == 0, finished.stderr
    received = sorted(json.loads(line) for line in finished.stdout.splitlines())
    assert received == [[["--lr"], "__main__", "0"], [["--lr"], "__main__", "1"]]


def test_one_process_asked_for_as_of_torchrun_finds_its_environment(
    launcher: Launcher, script: str
) -> None:
    (launcher.folder / "alone.py").write_text(
        "import torch.distributed as dist, sys\n"
        "dist.init_process_group('gloo')\n"
        "print(dist.get_world_size(), 'torch.distributed.run' in sys.modules)\n"
    )
    finished = launcher.run("--nproc-per-node=1", "alone.py")
    assert (finished.exit_code, finished.stdout) == (0, "1 False\n"), finished.stderr


def test_a_job_of_several_nodes_has_a_folder_for_each(launcher: Launcher, script: str) -> None:
    finished = launcher.run(
        "--nnodes=1:2", "--node-rank=0", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0",
        "--rdzv-id=job", "--rdzv-conf=last_call_timeout=1", script,
    )  # fmt: skip
    assert finished.exit_code == 0, finished.stderr
    assert (launcher.run_directory / "node-0" / "final_summary.json").exists()


def test_without_a_name_the_run_is_called_after_its_script(launcher: Launcher, script: str) -> None:
    finished = launcher.call("run", "--metrics-port=0", script)
    assert finished.exit_code == 0
    (folder,) = (launcher.folder / "logs").iterdir()
    assert folder.name.startswith("show-20")


def test_disabled_it_leaves_nothing_behind(launcher: Launcher, script: str) -> None:
    finished = launcher.run("--disable-traceml", script)
    assert finished.stderr == ""
    assert not (launcher.folder / "logs").exists()


def test_a_flag_beats_the_environment_that_beats_the_file(launcher: Launcher, script: str) -> None:
    file = launcher.folder / "traceml.toml"
    file.write_text("logs_dir = 'from-file'\nmetrics_port = 0\n")

    def folders() -> set[str]:
        return {folder.name for folder in launcher.folder.glob("from-*")}

    launcher.call("run", script)
    assert folders() == {"from-file"}
    environment = {"TRACEML_LOGS_DIR": "from-environment"}
    launcher.finish(launcher.popen(launcher.command("run", script), environment))
    assert folders() == {"from-file", "from-environment"}
    flagged = launcher.command("run", "--logs-dir", "from-flag", script)
    launcher.finish(launcher.popen(flagged, environment))
    assert folders() == {"from-file", "from-environment", "from-flag"}


def test_settings_may_stand_in_pyproject(launcher: Launcher, script: str) -> None:
    project = launcher.folder / "pyproject.toml"
    project.write_text("[tool.traceml]\nrun_name = 'named'\nmetrics_port = 0\n")
    assert launcher.call("run", script).exit_code == 0
    assert (launcher.folder / "logs" / "named" / "final_summary.json").exists()


def test_a_module_is_named_whole_in_the_run_s_name(launcher: Launcher, script: str) -> None:
    launcher.call("run", "--metrics-port=0", "-m", "package.module")
    (folder,) = (launcher.folder / "logs").iterdir()
    assert folder.name.startswith("package-module-20")


@pytest.mark.parametrize("processes", ["1", "2"])
def test_files_of_the_user_s_do_not_pass_for_modules_of_ours(
    launcher: Launcher, processes: str
) -> None:
    for name in ("psutil", "queue", "types", "random", "socket"):
        (launcher.folder / f"{name}.py").write_text("raise SystemExit('not yours')\n")
    (launcher.folder / "elsewhere").mkdir()
    script = "elsewhere/quiet.py"
    (launcher.folder / script).write_text("")
    finished = launcher.finish(
        launcher.popen(
            [str(Path(sys.executable).parent / "traceml"), "run", "--run-name=test",
             "--metrics-port=0", f"--nproc-per-node={processes}", script]
        )
    )  # fmt: skip
    assert finished.summary["run"]["status"] == "completed"


def test_the_run_s_files_say_where_it_was_served(launcher: Launcher, script: str) -> None:
    finished = launcher.run(script)
    files = sorted(file.name for file in finished.directory.iterdir())
    summaries = ["final_summary.html", "final_summary.json", "final_summary.txt"]
    assert files == [*summaries, "journal", "sidecar.json", "sidecar.log"]
    described = json.loads((finished.directory / "sidecar.json").read_text())
    assert described["metrics"] in finished.stderr
    assert (finished.directory / "final_summary.txt").read_text() in finished.stderr
