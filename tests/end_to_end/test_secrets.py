"""A secret on the command line is in nothing that a run leaves behind or publishes."""

from pathlib import Path

from tests.launching import Finished, Launcher, eventually

SECRET = "hunter2-Zq81"
SCRIPT = """\
import pathlib, sys, time
assert sys.argv.count("--api-key") == 1 and "hunter2-Zq81" in sys.argv
while not pathlib.Path("seen").exists():
    time.sleep(0.05)
"""
QUICK_GRPC = {
    "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
    "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
    "OTEL_METRIC_EXPORT_INTERVAL": "100",
}
ARGUMENTS = (
    "--api-key", SECRET, f"--password={SECRET}", f"DB_PASSWORD={SECRET}", "--lr", "0.125",
    "--db", f"postgres://ada:{SECRET}@localhost/x", "--config", f'{{"token": "{SECRET}"}}',
)  # fmt: skip


def run(launcher: Launcher, *own: str) -> tuple[Finished, str]:
    """A run to its end, and what /metrics said meanwhile."""
    (launcher.folder / "textfiles").mkdir()
    (launcher.folder / "script.py").write_text(SCRIPT)
    process = launcher.start(
        *own, "--sd-file", "target.json", "--textfile-dir", "textfiles", "--linger", "0",
        "--otlp-endpoint", f"http://ada:{SECRET}@127.0.0.1:9", "script.py", "--", *ARGUMENTS,
        environment=QUICK_GRPC,
    )  # fmt: skip
    log = launcher.run_directory / "sidecar.log"
    eventually(lambda: log.exists() and "do not arrive" in log.read_text())
    metrics = launcher.metrics()
    (launcher.folder / "seen").touch()
    return launcher.finish(process), metrics


def holders(folder: Path, text: str) -> list[str]:
    """The files that hold it."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.name != "script.py"]
    assert len(files) > 6
    return [file.name for file in files if text.encode() in file.read_bytes()]


def test_it_is_masked_in_every_file_and_on_metrics(launcher: Launcher) -> None:
    finished, metrics = run(launcher)
    assert finished.exit_code == 0, finished.stderr
    assert holders(launcher.folder, SECRET) == []
    assert SECRET not in metrics + finished.stderr
    assert finished.summary["run"]["command"][-10:] == [
        "--api-key", "***", "--password=***", "DB_PASSWORD=***", "--lr", "0.125",
        "--db", "postgres://ada:***@localhost/x", "--config", '{"token": "***"}',
    ]  # fmt: skip


def test_without_the_command_no_argument_of_the_script_is_kept(launcher: Launcher) -> None:
    finished, metrics = run(launcher, "--no-command")
    assert finished.exit_code == 0, finished.stderr
    assert holders(launcher.folder, SECRET) == holders(launcher.folder, "postgres") == []
    assert SECRET not in metrics + finished.stderr
    assert finished.summary["run"]["command"][-1] == "script.py"
