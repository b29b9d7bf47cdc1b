from traceml.publish.catalogue import CATALOGUE
from traceml.publish.reference import PAGE, page


def test_the_page_is_made_from_the_catalogue_as_it_is() -> None:
    assert PAGE.read_text() == page()


def test_every_metric_has_a_row_of_four_cells() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| `traceml_")]
    assert len(rows) == len(CATALOGUE)
    assert all(row.count("|") == 5 for row in rows)


def test_counters_stand_there_as_they_are_published() -> None:
    assert "| `traceml_steps_completed_total` | counter | `run` |" in page()
