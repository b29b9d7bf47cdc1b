"""Writes the summary's JSON Schema from its types: `python -m traceml.report.schema`."""

import json
from pathlib import Path

from traceml.report.document import SCHEMA_VERSION, Summary
from traceml.report.typed import schema

FILE = Path(__file__).parents[2] / "docs" / "schema" / "final_summary.schema.json"


def page() -> str:
    """The whole file."""
    title = f"final_summary.json of TraceML, schema_version {SCHEMA_VERSION}"
    return json.dumps(schema(Summary, title), indent=2) + "\n"


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(page())
