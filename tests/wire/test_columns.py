from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.builders import make_records, timed_records
from traceml.wire.columns import VALUES, Records, decode, encode
from traceml.wire.tags import Tag
from traceml.wire.telemetry_pb2 import Batch

COLUMNS = ("step", "tags", *VALUES)


@st.composite
def any_records(draw: st.DrawFn) -> Records:
    steps = sorted(draw(st.sets(st.integers(0, 2**32 - 1), max_size=20)))
    count = len(steps)
    measured = st.floats(0, 2.0**60, width=32)
    values = draw(
        arrays(np.float64, (count, len(VALUES)), elements=measured | st.just(float("nan")))
    )
    values[:, 0] = draw(arrays(np.float64, count, elements=measured))
    return Records(
        step=np.array(steps, dtype=np.int64),
        tags=draw(arrays(np.int64, count, elements=st.integers(0, 255))),
        values=values,
    )


def measured(steps: Iterable[int]) -> Records:
    """Records in which nothing is missing."""
    records = make_records(steps)
    records.values[:] = 1.0
    return records


@given(any_records(), st.integers(0, 2**64 - 1))
def test_what_is_encoded_is_decoded_again(records: Records, sequence: int) -> None:
    received = Batch.FromString(encode(records, sequence).SerializeToString())
    decoded = decode(received)
    assert received.sequence == sequence
    np.testing.assert_array_equal(decoded.step, records.step)
    np.testing.assert_array_equal(decoded.tags, records.tags)
    np.testing.assert_array_equal(decoded.values, records.values)  # NaN equals NaN here


@given(st.floats(1.0, 1e18))
def test_a_value_keeps_the_precision_of_a_float32(value: float) -> None:
    decoded = decode(encode(make_records([7], step_ns=1.0, backward_ns=value), 1))
    assert decoded.values[0, VALUES.index("backward_ns")] == pytest.approx(value, rel=2**-24)


def test_a_value_that_was_not_measured_is_nan_and_not_zero() -> None:
    decoded = decode(encode(make_records([0], step_ns=0.0, end_ns=np.nan), 1))
    assert decoded.values[0, VALUES.index("step_ns")] == 0.0
    assert np.isnan(np.delete(decoded.values[0], VALUES.index("step_ns"))).all()


def test_a_column_that_was_measured_in_no_step_takes_no_room() -> None:
    batch = encode(make_records(range(4), step_ns=1.0, h2d_ns=[np.nan, 2.0, np.nan, np.nan]), 1)
    held = {name for name in VALUES if getattr(batch, name)}
    assert held == {"step_ns", "end_ns", "h2d_ns"}


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_that_is_too_short_is_refused(column: str) -> None:
    batch = encode(measured(range(4)), 1)
    content = getattr(batch, column)
    setattr(batch, column, content[: len(content) // 2])
    with pytest.raises(ValueError, match=f"column {column} holds 2 values, the batch 4 records"):
        decode(batch)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_that_is_too_long_is_refused(column: str) -> None:
    batch = encode(measured(range(4)), 1)
    content = getattr(batch, column)
    setattr(batch, column, content + content)
    with pytest.raises(ValueError, match=f"column {column} holds 8 values, the batch 4 records"):
        decode(batch)


@pytest.mark.parametrize("column", ["step", "tags"])
def test_what_every_record_has_may_not_be_left_out(column: str) -> None:
    batch = encode(measured(range(4)), 1)
    setattr(batch, column, b"")
    with pytest.raises(ValueError, match=f"column {column} holds 0 values, the batch 4 records"):
        decode(batch)


def test_a_column_that_ends_within_a_value_is_refused() -> None:
    batch = encode(measured(range(4)), 1)
    batch.other_ns = batch.other_ns[:-1]
    with pytest.raises(ValueError, match="buffer size"):
        decode(batch)


def test_a_batch_that_claims_more_records_than_memory_holds_is_refused() -> None:
    batch = encode(make_records(range(4)), 1)
    batch.records = 2**32 - 1
    with pytest.raises(ValueError, match="the batch 4294967295 records"):
        decode(batch)


@pytest.mark.parametrize("steps", [[4, 4], [5, 4]])
def test_a_batch_whose_steps_are_not_in_order_is_refused(steps: list[int]) -> None:
    with pytest.raises(ValueError, match="not in order"):
        decode(encode(make_records(steps, step_ns=1.0), 1))


def test_a_batch_with_a_step_without_a_length_is_refused() -> None:
    with pytest.raises(ValueError, match="no length"):
        decode(encode(make_records(range(3), step_ns=[1.0, np.nan, 1.0]), 1))


def test_a_record_of_a_cpu_run_takes_at_most_85_bytes_on_the_wire() -> None:
    batch = encode(timed_records(range(1000), h2d=None), sequence=2**32)
    assert batch.ByteSize() <= 85 * 1000


def test_tags_are_spelled_in_lower_case() -> None:
    assert [tag.label for tag in Tag] == ["warmup", "compile", "checkpoint", "eval", "user"]
