import json
from pathlib import Path

import pytest

from tests.descriptors import descriptors_left
from traceml.sidecar.discovery import Discovery

EXPECTED = [{"targets": ["127.0.0.1:9464"], "labels": {}}]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "targets.json"


def test_a_run_is_announced_and_withdrawn(file: Path) -> None:
    discovery = Discovery(file)
    assert discovery.publish("127.0.0.1", 9464)
    assert json.loads(file.read_text()) == EXPECTED
    discovery.withdraw()
    assert not file.exists()


def test_without_a_file_there_is_nothing_to_do() -> None:
    discovery = Discovery(None)
    assert discovery.publish("127.0.0.1", 9464)
    discovery.withdraw()


def test_an_announcement_that_failed_is_made_later_and_only_once(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    discovery = Discovery(file)
    with descriptors_left(0):
        assert not discovery.publish("127.0.0.1", 9464)
        assert not discovery.publish("127.0.0.1", 9464)
    assert len(caplog.messages) == 1
    assert discovery.publish("127.0.0.1", 9464)
    assert json.loads(file.read_text()) == EXPECTED
    file.unlink()
    assert discovery.publish("127.0.0.1", 9464)
    assert not file.exists()


def test_an_announcement_that_cannot_be_looked_at_is_withdrawn_later(file: Path) -> None:
    discovery = Discovery(file)
    discovery.publish("127.0.0.1", 9464)
    with descriptors_left(0), pytest.raises(OSError, match="Too many open files"):
        discovery.withdraw()
    discovery.withdraw()
    assert not file.exists()


def test_what_another_run_has_announced_since_stays(file: Path) -> None:
    discovery = Discovery(file)
    discovery.publish("127.0.0.1", 9464)
    file.write_text("[]\n")
    discovery.withdraw()
    assert file.read_text() == "[]\n"
