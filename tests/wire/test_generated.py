from pathlib import Path

import pytest

from traceml.wire.generate import ROOT, generate


@pytest.mark.parametrize("name", ["telemetry_pb2.py", "telemetry_pb2.pyi"])
def test_the_generated_code_is_what_the_schema_gives(name: str, tmp_path: Path) -> None:
    generate(tmp_path)
    generated = tmp_path / "traceml" / "wire" / name
    assert generated.read_bytes() == (ROOT / "traceml" / "wire" / name).read_bytes()
