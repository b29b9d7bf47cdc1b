import numpy as np

from tests.builders import make_records, timed_records
from traceml.sidecar.clock import KEPT, on_one_clock
from traceml.wire.columns import DEVICE_TIMES, TIMES, VALUES, Matrix, Records

MS = 1e6


def on_both(steps: range) -> Records:
    """Records that have the device's times too, each longer by a second than the CPU's."""
    records = timed_records(steps)
    device = [VALUES.index(name) for name in DEVICE_TIMES]
    records.values[:, device] = records.values[:, : len(TIMES)] + 1e9
    return records


def side_by_side(*ranks: Records) -> Matrix:
    return np.stack([records.values for records in ranks], axis=1)


def test_what_is_kept_has_each_time_once_and_all_else() -> None:
    assert KEPT[: len(TIMES)] == TIMES
    assert set(VALUES) - set(KEPT) == set(DEVICE_TIMES)


def test_device_times_are_told_where_all_ranks_have_them() -> None:
    values = side_by_side(on_both(range(2)), on_both(range(2)))
    kept, on_device = on_one_clock(values)
    assert on_device.tolist() == [True, True]
    np.testing.assert_array_equal(kept[..., : len(TIMES)], values[..., : len(TIMES)] + 1e9)


def test_one_rank_without_device_times_puts_its_steps_on_the_cpus_clock() -> None:
    half = on_both(range(3))
    half.values[1, VALUES.index("device_step_ns")] = np.nan
    values = side_by_side(on_both(range(3)), half)
    kept, on_device = on_one_clock(values)
    assert on_device.tolist() == [True, False, True]
    np.testing.assert_array_equal(kept[1, :, : len(TIMES)], values[1, :, : len(TIMES)])


def test_a_cpu_run_keeps_its_times() -> None:
    values = side_by_side(timed_records(range(2)), timed_records(range(2)))
    kept, on_device = on_one_clock(values)
    assert not on_device.any()
    np.testing.assert_array_equal(kept[..., : len(TIMES)], values[..., : len(TIMES)])


def test_a_phase_that_the_device_did_not_time_is_not_taken_from_the_cpu() -> None:
    records = make_records([0], step_ns=9 * MS, dataloader_ns=3 * MS, device_step_ns=2 * MS)
    kept, _ = on_one_clock(side_by_side(records))
    assert kept[0, 0, KEPT.index("step_ns")] == 2 * MS
    assert np.isnan(kept[0, 0, KEPT.index("dataloader_ns")])


def test_what_is_no_time_stays_on_either_clock() -> None:
    records = on_both(range(2))
    records.values[:, VALUES.index("allocated_bytes")] = 5.0
    kept, _ = on_one_clock(side_by_side(records))
    assert kept[:, 0, KEPT.index("allocated_bytes")].tolist() == [5.0, 5.0]
    assert kept[:, 0, KEPT.index("samples")].tolist() == [32.0, 32.0]


def test_the_steps_that_are_given_are_not_changed() -> None:
    values = side_by_side(on_both(range(2)))
    before = values.copy()
    on_one_clock(values)
    np.testing.assert_array_equal(values, before)
