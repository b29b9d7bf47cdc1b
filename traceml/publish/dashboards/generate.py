"""Writes Grafana's dashboards: `python -m traceml.publish.dashboards.generate`."""

import argparse
from collections.abc import Callable
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from traceml.publish.dashboards import fleet, ranks, run_overview
from traceml.publish.dashboards.frame import RUNBOOKS, Page, framed

FOLDER = Path(__file__).parents[3] / "grafana" / "dashboards"

_PAGES: dict[str, Callable[[], Page]] = {
    "run-overview.json": run_overview.page,
    "ranks.json": ranks.page,
    "fleet.json": fleet.page,
}


def files(runbooks: str = RUNBOOKS) -> dict[str, str]:
    """Every dashboard as JSON, by the name of its file."""
    encoder = JSONEncoder(indent=2, ensure_ascii=False)
    return {name: f"{encoder.encode(framed(page(), runbooks))}\n" for name, page in _PAGES.items()}


def main() -> None:
    """Write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=FOLDER, help="another folder")
    parser.add_argument("--runbook-base", default=RUNBOOKS, help="where links to runbooks lead")
    arguments = parser.parse_args()
    arguments.into.mkdir(parents=True, exist_ok=True)
    for name, content in files(arguments.runbook_base).items():
        (arguments.into / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
