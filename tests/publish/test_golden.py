"""`pytest tests/publish/test_golden.py --regenerate` writes the golden files anew."""

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.builders import golden_run
from tests.publish import oracle
from tests.publish.golden import FORMATS, path_of, rendered


@pytest.mark.parametrize("name", FORMATS)
def test_the_output_of_a_fixed_run_is_the_golden_one(
    name: str, pytestconfig: pytest.Config
) -> None:
    if pytestconfig.getoption("--regenerate"):
        path_of(name).write_text(rendered(name), encoding="utf-8")
    assert rendered(name) == path_of(name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FORMATS)
def test_prometheus_client_would_have_written_the_golden_one_as_well(name: str) -> None:
    form = FORMATS[name]
    assert path_of(name).read_text(encoding="utf-8") == oracle.written(golden_run(), form)


def test_the_golden_openmetrics_is_read_by_its_own_parser() -> None:
    text = path_of("golden_openmetrics.txt").read_text(encoding="utf-8")
    families = list(text_string_to_metric_families(text))  # type: ignore[no-untyped-call]
    assert sum(len(family.samples) for family in families) == text.count("\ntraceml_")
