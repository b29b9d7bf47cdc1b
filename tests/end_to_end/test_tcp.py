"""A sidecar on the network: who may report, and who may not."""

import errno
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.launching import SCRIPTS, Launcher, eventually
from tests.ranks import Rank

TRAINING = str(SCRIPTS / "training.py")
LISTEN = ("--listen", "tcp://127.0.0.1:0")
TOKEN_REFUSED = 'traceml_requests_refused_total{reason="unauthenticated",run="test"}'


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("open sesame\n")
    return file


def environment_of(launcher: Launcher, *arguments: str) -> dict[str, str]:
    """What `traceml env` says the ranks need."""
    printed = launcher.call("env", launcher.sidecar()["endpoint"], *arguments).stdout
    return dict(line.split("=", 1) for line in printed.splitlines())


def test_a_training_reports_over_tcp_with_a_token(launcher: Launcher, token: Path) -> None:
    sidecar = launcher.start_sidecar(*LISTEN, "--token-file", str(token))
    environment = environment_of(launcher, "--token-file", str(token))
    assert environment["TRACEML_ENDPOINT"].startswith("tcp://127.0.0.1:")
    training = launcher.popen([sys.executable, TRAINING], environment)
    assert launcher.finish(training).exit_code == 0
    eventually(lambda: launcher.completed() == 40)
    sidecar.send_signal(signal.SIGTERM)
    finished = launcher.finish(sidecar)
    assert finished.summary["run"]["status"] == "completed"
    assert finished.summary["telemetry"]["requests_refused"] == 0


@pytest.mark.parametrize("shown", [None, "open says me", "open sesame more"])
def test_a_rank_with_a_wrong_token_is_refused_counted_and_trains_on(
    launcher: Launcher, token: Path, tmp_path: Path, shown: str | None
) -> None:
    launcher.start_sidecar(*LISTEN, "--token-file", str(token))
    endpoint = launcher.sidecar()["endpoint"]
    environment = {}
    if shown is not None:
        (tmp_path / "wrong").write_text(shown)
        environment = {"TRACEML_TOKEN_FILE": str(tmp_path / "wrong")}
    with Rank(endpoint, environment=environment) as stranger:
        stranger.train(10)
        eventually(lambda: (launcher.value(TOKEN_REFUSED) or 0) >= 2)
    with Rank(endpoint, environment={"TRACEML_TOKEN_FILE": str(token)}) as friend:
        friend.train(10)
        eventually(lambda: launcher.completed() == 10)


def test_over_mutual_tls_only_a_rank_with_a_certificate_of_ours_gets_in(
    launcher: Launcher, tmp_path: Path, certificates: Callable[..., tuple[str, str]]
) -> None:
    certificate, key = certificates("server")
    ca = str(tmp_path / "ca.pem")
    launcher.start_sidecar(
        *LISTEN, "--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", ca
    )
    endpoint = launcher.sidecar()["endpoint"]
    theirs = certificates("stranger", "other")
    shown = {"TRACEML_TLS_CLIENT_CERT": theirs[0], "TRACEML_TLS_CLIENT_KEY": theirs[1]}
    for environment in ({"TRACEML_TLS_CA": ca}, {"TRACEML_TLS_CA": ca, **shown}):
        with Rank(endpoint, environment=environment) as stranger:
            stranger.train(5)
            eventually(partial(is_turned_away, stranger))
    assert launcher.completed() == 0
    certificate, key = certificates("rank")
    environment = environment_of(
        launcher, "--tls-ca", ca, "--tls-cert", certificate, "--tls-key", key
    )
    environment.pop("PYTHONPATH")
    with Rank(endpoint, environment=environment) as rank:
        rank.train(5)
        eventually(lambda: launcher.completed() == 5)


def is_turned_away(rank: Rank) -> bool:
    return rank.sender._failures > 1


def test_a_sidecar_on_the_network_that_is_killed_goes_on_with_its_ranks(
    launcher: Launcher, token: Path
) -> None:
    first = launcher.start_sidecar(*LISTEN, "--token-file", str(token))
    endpoint = launcher.sidecar()["endpoint"]
    with Rank(endpoint, environment={"TRACEML_TOKEN_FILE": str(token)}) as rank:
        rank.train(20)
        eventually(lambda: launcher.completed() == 20)
        first.kill()
        first.wait()
        rank.train(5)
        launcher.start_sidecar("--listen", endpoint, "--token-file", str(token))
        eventually(lambda: launcher.completed() == 25)


def test_a_tcp_port_that_is_taken_is_not_shared(launcher: Launcher) -> None:
    launcher.start_sidecar(*LISTEN, "--insecure")
    endpoint = launcher.sidecar()["endpoint"]
    second = launcher.finish(launcher.start_sidecar("--listen", endpoint, "--insecure"))
    assert second.exit_code == 73
    assert f"cannot listen at {endpoint}" in second.stderr


def test_insecure_lets_anybody_report_and_warns(launcher: Launcher) -> None:
    sidecar = launcher.start_sidecar(*LISTEN, "--insecure")
    with Rank(launcher.sidecar()["endpoint"]) as rank:
        rank.train(3)
        eventually(lambda: launcher.completed() == 3)
    sidecar.terminate()
    assert "warning: --insecure lets anybody report" in launcher.finish(sidecar).stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize("is_private", [True, False])
def test_another_user_cannot_open_the_socket(
    launcher: Launcher, tmp_path: Path, is_private: bool
) -> None:
    everybody_s = Path(tempfile.mkdtemp())
    everybody_s.chmod(0o777)
    listen = () if is_private else ("--listen", f"unix://{everybody_s}/s.sock")
    launcher.start_sidecar(*listen)
    path = launcher.sidecar()["endpoint"].removeprefix("unix://")
    assert connect_as(0, path) == 0
    assert connect_as(65_534, path) == errno.EACCES
    shutil.rmtree(everybody_s)


def connect_as(user: int, path: str) -> int:
    """Try to open a socket as somebody else; returns the system's error, 0 for none."""
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setuid(user)
        os._exit(socket.socket(socket.AF_UNIX).connect_ex(path))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
