import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceml import units

SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def read_back(text: str, scale: dict[str, float]) -> float:
    number, unit = text.split()
    return float(number) * scale[unit]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (1e-10, "0"),
        (40e-9, "40 ns"),
        (1.5e-6, "1.50 us"),
        (0.0123, "12.3 ms"),
        (0.99949, "999 ms"),
        (0.9996, "1.00 s"),
        (9.996, "10.0 s"),
        (99.96, "100 s"),
        (3600.0, "3600 s"),
    ],
)
def test_a_time_is_shown_in_the_unit_that_fits(value: float | None, text: str) -> None:
    assert units.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0 B"),
        (512.0, "512 B"),
        (1536.0, "1.50 KiB"),
        (10.5 * 2**20, "10.5 MiB"),
        (80.0 * 2**30, "80.0 GiB"),
        (2.0 * 2**40, "2.00 TiB"),
    ],
)
def test_an_amount_of_memory_is_shown_in_the_unit_that_fits(value: float | None, text: str) -> None:
    assert units.bytes_(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0 MHz"), (345e6, "345 MHz"), (999.6e6, "1.00 GHz"), (1.725e9, "1.73 GHz")],
)
def test_a_clock_is_shown_in_the_unit_that_fits(value: float, text: str) -> None:
    assert units.hertz(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0 %"), (0.256, "26 %"), (1.0, "100 %"), (9.9, "990 %"), (12.4, "12 x")],
)
def test_a_ratio_is_a_percentage_and_from_tenfold_on_a_multiple(
    value: float | None, text: str
) -> None:
    assert units.ratio(value) == text


@given(st.floats(1e-6, 1e5))
def test_a_shown_time_is_within_half_a_percent_of_the_real_one(value: float) -> None:
    assert read_back(units.seconds(value), SECONDS) == pytest.approx(value, rel=0.0051)


@given(st.floats(2**10, 2**50))
def test_shown_memory_is_within_half_a_percent_of_the_real_one(value: float) -> None:
    assert read_back(units.bytes_(value), dict(BYTES)) == pytest.approx(value, rel=0.0051)


@given(st.floats(0, 9e4))
def test_a_time_never_takes_more_than_seven_columns(value: float) -> None:
    assert len(units.seconds(value)) <= 7


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (0.0421, "42.1 ms"),
        (40.0, "40.0 s"),
        (60.0, "1 min"),
        (59.9996, "60.0 s"),
        (61.2, "1 min 1 s"),
        (119.7, "2 min"),
        (3599.9, "60 min"),
        (3600.0, "1 h"),
        (5400.0, "1 h 30 min"),
        (86_400.0, "1 d"),
        (180_000.0, "2 d 2 h"),
    ],
)
def test_a_duration_reads_as_people_say_it(value: float, shown: str) -> None:
    assert units.duration(value) == shown
