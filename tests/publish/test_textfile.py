import os
import subprocess
import time
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families as parse_text

from tests.builders import run_of
from traceml.publish.textfile import KEPT_SECONDS, write_textfile


def test_the_final_state_of_a_run_is_in_a_file_of_its_own(tmp_path: Path, promtool: str) -> None:
    write_textfile(run_of(2, name="night"), tmp_path)
    (file,) = tmp_path.iterdir()
    assert file.name == "traceml-night.prom"
    assert file.stat().st_mode & 0o777 == 0o644
    text = file.read_text()
    assert "traceml_run_state" in {family.name for family in parse_text(text)}
    checked = subprocess.run([promtool, "check", "metrics"], input=text, text=True, check=False)
    assert checked.returncode == 0


def test_runs_that_ended_long_ago_are_forgotten_and_other_files_are_not(tmp_path: Path) -> None:
    long_ago = time.time() - KEPT_SECONDS - 60
    for name in ("traceml-old.prom", "node.prom", "traceml-new.prom"):
        (tmp_path / name).touch()
    for name in ("traceml-old.prom", "node.prom"):
        os.utime(tmp_path / name, (long_ago, long_ago))
    write_textfile(run_of(1), tmp_path)
    left = sorted(file.name for file in tmp_path.iterdir())
    assert left == ["node.prom", "traceml-demo.prom", "traceml-new.prom"]
