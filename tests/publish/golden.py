"""The whole output of one fixed run, kept beside this file: every change of it is a diff."""

from pathlib import Path

from tests.builders import golden_run
from traceml.publish.exposition import Form, Writer

FORMATS = {
    "golden_metrics.txt": Form.CLASSIC,
    "golden_openmetrics.txt": Form.OPENMETRICS,
}


def path_of(name: str) -> Path:
    return Path(__file__).with_name(name)


def rendered(name: str) -> str:
    return Writer().write(golden_run(), FORMATS[name]).decode()
