"""What a script does with descriptors, its own and ours, is its own affair."""

import sys
from collections.abc import Callable
from pathlib import Path

from tests.launching import SCRIPTS, Finished, Launcher

CLOSING = str(SCRIPTS / "closing.py")
SAID = "sockets 1 0 False\nintact 20\n"  # its children have none of ours
STEPS = 60


def assert_all_arrived(finished: Finished) -> None:
    assert finished.summary["step_time"]["steps"]["completed"] == STEPS
    assert finished.summary["telemetry"]["records_received"] == STEPS
    assert finished.summary["telemetry"]["records_dropped"] == 0
    assert finished.summary["run"]["status"] == "completed"


def test_a_script_with_workers_may_close_all_descriptors_and_open_files_in_their_place(
    launcher: Launcher,
) -> None:
    finished = launcher.run(CLOSING, "--", "2")
    assert (finished.exit_code, finished.stdout) == (0, SAID), finished.stderr
    before_the_summary = finished.stderr.split("\nTraceML  test")[0]
    assert len(before_the_summary.splitlines()) == 1, before_the_summary
    assert_all_arrived(finished)


def test_a_script_that_reports_over_mutual_tls_may_close_all_descriptors(
    launcher: Launcher, tmp_path: Path, certificates: Callable[..., tuple[str, str]]
) -> None:
    certificate, key = certificates("server")
    own, own_key = certificates("rank")
    ca, token = str(tmp_path / "ca.pem"), tmp_path / "token"
    token.write_text("open sesame\n")
    sidecar = launcher.start_sidecar(
        *("--listen", "tcp://127.0.0.1:0", "--token-file", str(token)),
        *("--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", ca),
    )
    printed = launcher.call(
        *("env", launcher.sidecar()["endpoint"], "--token-file", str(token)),
        *("--tls-ca", ca, "--tls-cert", own, "--tls-key", own_key),
    ).stdout
    environment = dict(line.split("=", 1) for line in printed.splitlines())
    training = launcher.finish(launcher.popen([sys.executable, CLOSING, "0"], environment))
    assert (training.exit_code, training.stdout, training.stderr) == (0, SAID, "")
    sidecar.terminate()
    assert_all_arrived(launcher.finish(sidecar))
