import asyncio
from pathlib import Path

import pytest

from tests.builders import golden_run
from tests.descriptors import descriptors_left
from tests.sidecar.told import RUN
from traceml.sidecar.config import Config
from traceml.sidecar.listen import bind
from traceml.sidecar.process import Sidecar
from traceml.snapshot import Snapshot


def test_a_summary_is_written_again_if_there_was_no_descriptor_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, tried = Sidecar._write, []

    def short_at_first(sidecar: Sidecar, final: Snapshot) -> None:
        tried.append(final)
        if len(tried) > 1:
            return write(sidecar, final)
        with descriptors_left(0):
            return write(sidecar, final)

    monkeypatch.setattr(Sidecar, "_write", short_at_first)
    with bind("127.0.0.1", 0) as listener:
        sidecar = Sidecar(Config(RUN, tmp_path / "run", "unix:///nowhere"), listener)
        assert asyncio.run(sidecar._keep(golden_run())) == ""
    assert len(tried) == 2
    assert (tmp_path / "run" / "final_summary.json").exists()
