from pathlib import Path

import pytest

from traceml.sidecar.config import Config, RunIdentity


@pytest.mark.parametrize("sd_file", [None, Path("/etc/prometheus/sd.json")])
@pytest.mark.parametrize("ranks_expected", [None, 4])
def test_a_sidecar_reads_what_its_launcher_wrote(
    sd_file: Path | None, ranks_expected: int | None
) -> None:
    command = ("traceml", "run", "train.py", "--text", "line\nbreak", "\udcff")
    run = RunIdentity("demo", "0123", command, 1.5, ranks_expected)
    config = Config(
        run, Path("/logs/demo"), "unix:///tmp/x/sidecar.sock", 0.5, sd_file, sd_file, 3.5, 7, 2
    )
    line = config.to_json()
    assert "\n" not in line
    assert Config.from_json(line) == config
