"""Which of the time went at the CPU's pace, told from when events were recorded and passed."""

from traceml.rank.lead import Lead

MS = 1_000_000


def in_ms(
    lead: Lead, recorded: list[float], passed: list[float], not_passed: float = 0
) -> list[float]:
    of = lead.idle(
        [round(ms * MS) for ms in recorded],
        [round(ms * MS) for ms in passed],
        round(not_passed * MS),
    )
    return [ns / MS for ns in of]


def test_a_device_that_keeps_up_with_the_cpu_may_have_idled_all_the_time() -> None:
    assert in_ms(Lead(), [100, 110, 125], [0, 10, 25]) == [0, 10, 15]


def test_a_device_that_is_behind_was_busy() -> None:
    """Ten of forward and twenty of backward are queued within three."""
    assert in_ms(Lead(), [100, 101, 103], [0, 10, 30]) == [0, 0, 0]


def test_what_it_has_to_catch_up_with_is_no_idleness() -> None:
    """Ten are queued at once, then the CPU waits for them, say to read the loss."""
    assert in_ms(Lead(), [100, 101, 110], [0, 10, 10]) == [0, 0, 0]


def test_the_first_mark_ends_no_known_time() -> None:
    lead = Lead()
    assert in_ms(lead, [100, 110], [0, 10]) == [0, 10]
    assert in_ms(lead, [120, 130], [20, 30]) == [10, 10]
    lead.interrupt()
    assert in_ms(lead, [140, 150], [40, 50]) == [0, 10]


def test_a_device_that_is_always_behind_is_known_to_be_by_what_it_has_not_passed() -> None:
    """Both clocks go on alike, so only a look at an event tells how far it is behind."""
    lead = Lead()
    assert in_ms(lead, [100, 110], [0, 10], not_passed=118) == [0, 0]
    assert in_ms(lead, [120, 130], [20, 30], not_passed=138) == [0, 0]


def test_clocks_that_drift_apart_are_compared_anew() -> None:
    lead = Lead()
    drift = 1.0001  # of the device's clock; 100 ppm
    for second in range(60):
        start = 1_000.0 * second
        recorded = [start + 100 * part for part in range(10)]
        idle = in_ms(lead, recorded, [drift * ms for ms in recorded])
        if second > 2:
            assert all(ms > 99 for ms in idle)
