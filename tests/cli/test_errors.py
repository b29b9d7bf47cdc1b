"""A user's mistake is told in one line, with its exit code, before anything is started."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.launching import Finished, Launcher


def assert_one_line(finished: Finished, exit_code: int, *words: str) -> None:
    assert finished.exit_code == exit_code, finished.stderr
    assert finished.stderr.startswith("traceml: error: ")
    assert len(finished.stderr.splitlines()) == 1
    for word in words:
        assert word in finished.stderr
    assert not finished.directory.parent.exists() or not any(finished.directory.parent.iterdir())


@pytest.fixture
def script(launcher: Launcher) -> str:
    (launcher.folder / "script.py").write_text("print('ran')\n")
    return "script.py"


def test_no_such_script(launcher: Launcher) -> None:
    assert_one_line(launcher.call("run", "nosuch.py"), 66, "no such script: nosuch.py")


def test_a_folder_is_no_script(launcher: Launcher) -> None:
    assert_one_line(launcher.call("run", "."), 66, "cannot read .")


def test_a_script_that_may_not_be_read(launcher: Launcher, script: str) -> None:
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("setpriv is not installed")
    (launcher.folder / script).chmod(0)
    # Root may read anything, unless it gives that privilege away.
    without = [setpriv, "--bounding-set=-dac_override,-dac_read_search"]
    if subprocess.run([*without, "true"], capture_output=True).returncode != 0:
        without = []
    finished = launcher.finish(launcher.popen([*without, *launcher.command("run", script)]))
    assert_one_line(finished, 66, "cannot read script.py: Permission denied")


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "with space", "x" * 101])
def test_a_bad_run_name(launcher: Launcher, script: str, name: str) -> None:
    assert_one_line(launcher.call("run", "--run-name", name, script), 2, repr(name))


def test_a_logs_folder_that_cannot_be_written(launcher: Launcher, script: str) -> None:
    finished = launcher.call("run", "--logs-dir", "script.py/logs", "--metrics-port=0", script)
    assert_one_line(finished, 73, "script.py/logs", "Not a directory")


def test_an_address_that_is_not_ours(launcher: Launcher, script: str) -> None:
    finished = launcher.call("run", "--metrics-host", "192.0.2.1", script)
    assert_one_line(finished, 73, "cannot serve metrics at 192.0.2.1:9464")


@pytest.mark.parametrize("file", ["nowhere/x.json", "."])
def test_an_sd_file_that_cannot_be_one(launcher: Launcher, script: str, file: str) -> None:
    assert_one_line(launcher.call("run", "--sd-file", file, script), 73, "--sd-file: ")


def test_an_argument_of_the_script_s_before_the_separator(launcher: Launcher, script: str) -> None:
    finished = launcher.call("run", script, "--lr", "0.1")
    assert_one_line(finished, 2, "the script's own arguments go behind `--`")


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "script.py", "--no-such-flag"),
        ("run", "--nproc-per-node=0", "script.py"),
        ("run", "--nproc-per-node=x", "script.py"),
        ("run", "--mode=fancy", "script.py"),
        ("run", "--interval=fast", "script.py"),
        ("run", "--metrics-port=70000", "script.py"),
        ("run", "-m", "module", "script.py"),
        ("run",),
        ("runn",),
        ("run", "--journal-max-mb=1", "script.py"),
        ("run", "--linger=-1", "script.py"),
        ("sidecar", "--listen", "tcp://0.0.0.0:1"),
        ("sidecar", "--listen", "tcp://nowhere"),
        ("sidecar", "--listen", "tcp://host:70000"),
        ("sidecar", "--listen", "sidecar.sock"),
        ("sidecar", "--listen", "tcp://127.0.0.1:0", "--tls-cert", "script.py"),
        ("sidecar", "--listen", "tcp://127.0.0.1:0", "--tls-client-ca", "script.py"),
        ("sidecar", "--token-file", "script.py"),
        ("env", "sidecar.sock"),
        ("env", "unix:///s.sock", "--token-file", "script.py"),
        ("env", "tcp://host:1", "--tls-cert", "script.py"),
        ("summarize",),
    ],
)
def test_wrong_usage(launcher: Launcher, script: str, arguments: tuple[str, ...]) -> None:
    assert_one_line(launcher.call(*arguments), 2)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("interval = ", "traceml.toml: "),
        ("intervall = 2", "unknown setting 'intervall'"),
        ("interval = 'fast'", "interval in traceml.toml: 'fast'"),
        ("metrics_port = true", "metrics_port in traceml.toml: True"),
        ("run_name = 7", "run_name in traceml.toml: 7"),
    ],
)
def test_a_bad_config_file(launcher: Launcher, script: str, content: str, complaint: str) -> None:
    (launcher.folder / "traceml.toml").write_text(content)
    assert_one_line(launcher.call("run", script), 78, complaint)


def test_a_textfile_folder_that_is_none(launcher: Launcher, script: str) -> None:
    finished = launcher.call("run", "--textfile-dir", "nowhere", script)
    assert_one_line(finished, 73, "--textfile-dir: no such folder: nowhere")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(None, "cannot read token: No such file"), ("", "one line"), ("two\nlines", "one line")],
)
def test_a_token_that_cannot_be_one(
    launcher: Launcher, content: str | None, complaint: str
) -> None:
    if content is not None:
        (launcher.folder / "token").write_text(content)
    listen = ("--listen", "tcp://127.0.0.1:0")
    finished = launcher.call("sidecar", *listen, "--token-file", "token")
    assert_one_line(finished, 66, "--token-file: ", complaint)


def test_a_certificate_that_is_none(launcher: Launcher, script: str) -> None:
    tls = ("--tls-cert", script, "--tls-key", script, "--tls-client-ca", script)
    finished = launcher.call("sidecar", "--metrics-port=0", "--listen", "tcp://127.0.0.1:0", *tls)
    assert_one_line(finished, 73, "cannot listen at tcp://127.0.0.1:0", "certificate or key")


def test_a_host_that_is_none(launcher: Launcher) -> None:
    listen = ("--listen", "tcp://nowhere.invalid:9700", "--insecure")
    finished = launcher.call("sidecar", "--metrics-port=0", *listen)
    assert_one_line(finished, 73, "cannot listen at tcp://nowhere.invalid:9700: ")


@pytest.mark.parametrize("command", ["sidecar", "env", "summarize"])
def test_a_mistyped_flag_points_to_its_own_help(launcher: Launcher, command: str) -> None:
    argument = [] if command == "sidecar" else ["unix:///s.sock"]
    finished = launcher.call(command, *argument, "--wat")
    assert_one_line(finished, 2, "--wat", f"(see traceml {command} --help)")


@pytest.mark.parametrize("name", ["x" * 120, "nowhere/x"])
def test_a_socket_that_cannot_be_had(launcher: Launcher, name: str) -> None:
    socket = f"unix://{launcher.folder}/{name}.sock"
    finished = launcher.call("sidecar", "--metrics-port=0", "--listen", socket)
    assert_one_line(finished, 73, "--listen: ")


def test_output_that_is_closed_stays_closed_and_the_run_works(
    launcher: Launcher, script: str
) -> None:
    command = " ".join(launcher.command("run", "--run-name=test", "--metrics-port=0", script))
    finished = launcher.finish(launcher.popen(["sh", "-c", f"{command} 2>&-"]))
    assert (finished.exit_code, finished.stdout) == (0, "ran\n")
    assert finished.summary["run"]["status"] == "completed"


def test_a_command_alone_teaches(launcher: Launcher) -> None:
    finished = launcher.call()
    assert finished.exit_code == 2
    assert "traceml [-h] [--version] COMMAND" in finished.stderr


def test_help_shows_every_form(launcher: Launcher) -> None:
    text = launcher.call("run", "--help").stdout
    for form in ("--nproc-per-node=2", "--args --lr 0.1", "train.py -- --lr", "-m package.module"):
        assert form in text


def test_a_run_that_exists_is_never_written_over(launcher: Launcher, script: str) -> None:
    for _ in range(3):
        assert launcher.run(script).exit_code == 0
    logs = launcher.folder / "logs"
    assert sorted(folder.name for folder in logs.iterdir()) == ["test", "test-2", "test-3"]
    assert_has_own_name(logs / "test-3")


def assert_has_own_name(directory: Path) -> None:
    finished = Finished(0, "", "", directory)
    assert finished.summary["run"]["name"] == directory.name
