import pytest
import tomllib

from traceml.diagnosis.policy import DEFAULT, FIELDS, Policy, documented


def test_what_is_printed_is_a_file_of_the_defaults() -> None:
    assert Policy.of(tomllib.loads(documented())) == DEFAULT


def test_every_threshold_is_explained() -> None:
    text = documented()
    for name, field in FIELDS.items():
        assert f"# {field.metadata['doc']}\n{name} = " in text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"stragler_warning": 0.1}, "stragler_warning is no threshold"),
        ({"straggler_warning": "a lot"}, "straggler_warning must be a number, not 'a lot'"),
        ({"straggler_warning": True}, "straggler_warning must be a number, not True"),
        ({"straggler_warning": 1.5}, "straggler_warning must be 0 to 1, but not 0"),
        ({"straggler_warning": 0}, "straggler_warning must be 0 to 1, but not 0"),
        ({"stalled_seconds": -1}, "stalled_seconds must be above 0"),
        ({"stalled_seconds": float("nan")}, "stalled_seconds must be above 0"),
        ({"stalled_seconds": float("inf")}, "stalled_seconds must be above 0"),
        ({"policy": {"jitter_ratio": 2}}, "there are no sections, such as \\[policy\\]"),
        ({"jitter_ratio": 0.5}, "jitter_ratio must be at least 1"),
        ({"input_warning": 0.5}, r"input_critical \(0.2\) must not be below input_warning \(0.5\)"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Policy.of(given)


def test_what_is_not_given_stays_as_it_is() -> None:
    policy = Policy.of({"stalled_seconds": 5})
    assert policy.stalled_seconds == 5.0
    assert policy.straggler_warning == DEFAULT.straggler_warning
