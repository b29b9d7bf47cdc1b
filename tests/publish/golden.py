"""The whole output of one fixed run, kept beside this file: every change of it is a diff."""

from pathlib import Path

from tests.builders import golden_run
from traceml.publish.prometheus import Exposition

# file name -> what the scraper accepts
FORMATS = {
    "golden_metrics.txt": "text/plain",
    "golden_openmetrics.txt": "application/openmetrics-text; version=1.0.0",
}


def path_of(name: str) -> Path:
    return Path(__file__).with_name(name)


def rendered(name: str) -> str:
    body, _ = Exposition().render(golden_run(), FORMATS[name], zipped=False)
    return body.decode()
