import hashlib
from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.builders import Clock, golden_collector, look
from traceml.sidecar import checkpoint
from traceml.sidecar.checkpoint import UnreadableError, capture, pack, unpack
from traceml.sidecar.collector import _SAVED, Collector
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import VALUES


def again(collector: Collector, clock: Clock) -> Collector:
    loaded = Collector.load(unpack(pack(capture(collector.save()))))
    loaded.clock = clock
    return loaded


def test_a_collector_that_was_saved_shows_the_same_snapshot() -> None:
    clock = Clock()
    collector = golden_collector(clock)
    assert look(again(collector, clock)) == look(collector)


def test_a_checkpoint_does_not_change_when_the_state_goes_on() -> None:
    array, numbers = np.arange(3.0), [1, 2]
    captured = capture({"array": array, "list": numbers})
    array[0] = 99.0
    numbers.append(3)
    restored = unpack(pack(captured))
    assert restored["array"].tolist() == [0.0, 1.0, 2.0]
    assert restored["list"] == [1, 2]


def test_plain_values_come_back_as_they_were() -> None:
    state = {
        7: ("a", None, True, 1.5, float("inf")),
        "counter": Counter({"x": 2}),
        "empty": np.empty((0, 3), dtype=bool),
        "message": pb.Heartbeat(step=3, notes=["é"]),
        "nested": {"list": [{"deep": -1}]},
    }
    restored = unpack(pack(capture(state)))
    assert restored.pop("empty").shape == (0, 3)
    state.pop("empty")
    assert restored == state
    assert isinstance(restored["counter"], Counter)
    assert isinstance(restored[7], tuple)


def test_what_is_not_known_is_not_saved() -> None:
    with pytest.raises(TypeError):
        capture({"thing": object()})


def test_no_byte_of_it_can_be_lost_or_altered_unnoticed() -> None:
    data = pack(capture({"array": np.arange(5), "word": "hello"}))
    for place in range(len(data)):
        altered = bytearray(data)
        altered[place] ^= 0x10
        with pytest.raises(UnreadableError):
            unpack(bytes(altered))
        with pytest.raises(UnreadableError):
            unpack(data[:place])


@pytest.mark.parametrize("kind", ["os", "Popen", "Collector", "array"])
def test_a_checkpoint_makes_nothing_but_what_it_knows(kind: str) -> None:
    data = pack({kind: {"dict": []}})
    with pytest.raises(UnreadableError):
        unpack(data)


def test_another_format_is_refused_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "FORMAT", 0)
    data = pack(capture({}))
    monkeypatch.undo()
    with pytest.raises(UnreadableError, match="of format 0, not 9"):
        unpack(data)


def test_the_format_s_number_changes_with_what_is_saved() -> None:
    """Fails when an attribute comes or goes: raise FORMAT, then write the new digest here."""
    clock = Clock()
    collector = golden_collector(clock)
    names = [*_SAVED, *VALUES, *sorted(attributes(capture(collector.save())))]
    digest = hashlib.sha256(" ".join(names).encode()).hexdigest()[:16]
    assert (checkpoint.FORMAT, digest) == (9, "db09952b4015acdc")


def attributes(value: Any) -> set[str]:
    """Class and name of every attribute of the saved objects in a captured state."""
    if isinstance(value, list):
        return {name for item in value for name in attributes(item)}
    if not isinstance(value, dict):
        return set()
    ((kind, content),) = value.items()
    own = {f"{kind}.{key}" for key, _ in content["dict"]} if kind in checkpoint._OBJECTS else set()
    return own | attributes(content)
