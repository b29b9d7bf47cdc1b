"""A disk that is full, slow or read-only: training and /metrics go on, and losses are told."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from benchmarks.feed import Ranks
from tests.conftest import require_program
from tests.launching import SCRIPTS, Launcher, eventually, fetch, is_running
from tests.ranks import Rank
from traceml.sidecar.journal import path_of

TRAINING = str(SCRIPTS / "training.py")
UNJOURNALED = 'traceml_records_unjournaled_total{run="test"}'


@pytest.fixture
def small_disk(launcher: Launcher) -> Iterator[Path]:
    """Two megabytes for all that a run writes."""
    logs = launcher.folder / "logs"
    logs.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(logs)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("a file system can't be mounted here")
    yield logs
    launcher.__exit__()  # whoever still writes there
    subprocess.run(["umount", "--lazy", str(logs)], check=True)


def fill(disk: Path) -> Path:
    """Leave not a byte."""
    ballast = disk / "ballast"
    with ballast.open("ab", buffering=0) as file:
        for size in (65_536, 4_096, 1):
            try:
                while file.write(b"x" * size):
                    continue
            except OSError:
                continue
    return ballast


def test_a_full_disk_costs_nothing_if_it_has_room_again_before_the_sidecar_dies(
    launcher: Launcher, small_disk: Path
) -> None:
    listen = ("--listen", f"unix://{launcher.folder}/s.sock")
    first = launcher.start_sidecar(*listen)
    with Rank(launcher.sidecar()["endpoint"]) as rank:
        rank.train(100)
        eventually(lambda: launcher.completed() == 100)
        ballast = fill(small_disk)
        rank.train(5_000)
        eventually(lambda: launcher.completed() == 5_100)  # figures go on
        assert (launcher.value(UNJOURNALED) or 0) > 0
        ballast.unlink()
        eventually(lambda: len(list(launcher.run_directory.glob("journal/*.checkpoint"))) == 2)
        rank.train(10)
        eventually(lambda: rank.backlog == 0 and launcher.completed() == 5_110)
        first.kill()
        first.wait()
        second = launcher.start_sidecar(*listen)
        eventually(lambda: launcher.completed() == 5_110)
    second.terminate()
    telemetry = launcher.finish(second).summary["telemetry"]
    assert (telemetry["records_received"], telemetry["records_dropped"]) == (5_110, 0)


def test_what_a_sidecar_takes_with_it_while_the_disk_is_full_is_counted(
    launcher: Launcher, small_disk: Path
) -> None:
    listen = ("--listen", f"unix://{launcher.folder}/s.sock")
    first = launcher.start_sidecar(*listen)
    with Rank(launcher.sidecar()["endpoint"]) as rank:
        rank.train(100)
        eventually(lambda: launcher.completed() == 100)
        ballast = fill(small_disk)
        rank.train(1_000)
        eventually(lambda: launcher.completed() == 1_100 and rank.backlog == 0)
        unjournaled = int(launcher.value(UNJOURNALED) or 0)
        assert unjournaled > 0
        first.kill()
        first.wait()
        ballast.unlink()
        second = launcher.start_sidecar(*listen)
        rank.train(10)
        eventually(lambda: launcher.completed() == 1_110 - unjournaled)
    second.terminate()
    finished = launcher.finish(second)
    assert finished.summary["telemetry"]["records_dropped"] == unjournaled
    assert f"{unjournaled} records lost ({unjournaled} unjournaled)" in finished.stderr


def test_a_training_on_a_full_disk_ends_as_it_would_have_and_its_summary_is_shown(
    launcher: Launcher, small_disk: Path
) -> None:
    hold = launcher.folder / "hold"
    hold.touch()
    process = launcher.start(TRAINING, "--", "--pause", "0.01", "--hold", str(hold))
    eventually(lambda: launcher.completed() > 5)
    fill(small_disk)
    before = launcher.completed()
    eventually(lambda: launcher.completed() > before + 20)
    hold.unlink()
    finished = launcher.finish(process)
    assert (finished.exit_code, finished.stdout) == (0, "rank 0 done, terminal: False\n")
    assert "TraceML  test  completed, exit code 0" in finished.stderr
    assert "The journal cannot be written (No space left on device)" in finished.stderr
    assert "the summary could not be written: " in finished.stderr
    assert "Traceback" not in finished.stderr


def test_a_folder_that_becomes_read_only_loses_nothing_while_the_segment_has_room(
    launcher: Launcher,
) -> None:
    setpriv = require_program("setpriv")
    # Root may write anywhere, unless it gives that privilege away.
    without = [setpriv, "--bounding-set=-dac_override", "--inh-caps=-dac_override"]
    if os.geteuid() != 0:
        without = []
    listen = ("--listen", f"unix://{launcher.folder}/s.sock")
    command = launcher.command("sidecar", "--run-name=test", "--metrics-port=0", *listen)
    small = [*command, "--journal-max-mb=8"]
    first = launcher.popen([*without, *small])
    with Rank(launcher.sidecar()["endpoint"]) as rank:
        rank.train(100)
        eventually(lambda: launcher.completed() == 100)
        journal = launcher.run_directory / "journal"
        journal.chmod(0o500)
        for _ in range(24):  # more than the first segment should hold
            rank.train(3_000)
            eventually(lambda: rank.backlog == 0)
        eventually(lambda: launcher.completed() == rank.trained)
        log = launcher.run_directory / "sidecar.log"
        assert "the journal cannot be written: Permission denied" in log.read_text()
        assert launcher.value(UNJOURNALED) == 0.0
        first.kill()
        first.wait()
        journal.chmod(0o700)
        launcher.popen([*without, *small])
        eventually(lambda: launcher.completed() == rank.trained)


def test_a_journal_damaged_while_nobody_looked_does_not_hold_the_next_sidecar(
    launcher: Launcher,
) -> None:
    listen = ("--listen", f"unix://{launcher.folder}/s.sock")
    first = launcher.start_sidecar(*listen)
    with Rank(launcher.sidecar()["endpoint"]) as rank:
        for _ in range(4):
            rank.train(100)
            eventually(lambda: launcher.completed() == rank.trained and rank.backlog == 0)
        first.kill()
        first.wait()
        segment = path_of(launcher.run_directory / "journal", 1, "segment")
        data = bytearray(segment.read_bytes())
        data[len(data) // 2] ^= 0xFF
        segment.write_bytes(data)
        second = launcher.start_sidecar(*listen)
        rank.train(50)
        eventually(lambda: launcher.completed() == 350)
    second.terminate()
    finished = launcher.finish(second)
    assert finished.summary["telemetry"]["records_dropped"] == 100
    assert "The journal could not be read whole" in finished.stderr


@pytest.fixture
def slow_disk(tmp_path: Path) -> dict[str, str]:
    """What makes every write to a journal take its time."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed")
    library = tmp_path / "slow_disk.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", library, SCRIPTS / "slow_disk.c", "-ldl"], check=True
    )
    return {"LD_PRELOAD": str(library)}


def test_a_million_rank_steps_on_a_slow_disk_need_no_more_memory_and_keep_to_the_limit(
    launcher: Launcher, slow_disk: dict[str, str]
) -> None:
    launcher.start_sidecar("--journal-max-mb=8", environment=slow_disk)
    described = launcher.sidecar()
    process = psutil.Process(described["pid"])
    journal = launcher.run_directory / "journal"
    ranks = Ranks(described["endpoint"], 8)
    resident, largest = [], 0
    for part in range(84):
        ranks.push(1_500)
        largest = max(largest, size_of(journal))
        if part % 20 == 10:
            resident.append(process.memory_info().rss)
            assert "traceml_steps_completed_total" in fetch(described["metrics"])
    assert ranks.step * 8 >= 1_000_000
    eventually(lambda: launcher.completed() == ranks.step)
    assert largest <= 8 * 2**20
    assert max(resident) - resident[0] < 8 * 2**20
    assert launcher.value(UNJOURNALED) == 0.0


def size_of(journal: Path) -> int:
    size = 0
    for file in journal.iterdir():
        with suppress(FileNotFoundError):  # it went in the meantime
            size += file.stat().st_size
    return size


def test_the_folder_of_a_run_that_somebody_removed_does_not_cost_the_summary(
    launcher: Launcher, tmp_path: Path
) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    process = launcher.start(TRAINING, "--", "--pause", "0.01", "--hold", str(hold))
    eventually(lambda: launcher.completed() > 5)
    sidecar = launcher.sidecar()["pid"]
    shutil.rmtree(launcher.run_directory)
    hold.unlink()
    finished = launcher.finish(process)
    assert finished.exit_code == 0
    assert finished.summary["step_time"]["steps"]["completed"] > 5
    eventually(lambda: not is_running(sidecar))
