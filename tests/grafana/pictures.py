"""Draws the dashboards into the documentation: `python -m tests.grafana.pictures`.

Two real runs of some minutes, a real Prometheus, the dashboards' own JSON; the panels are drawn by
the modules beside this one, not by Grafana. Needs Prometheus and Chromium.
"""

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.accuracy.schedule import Segment
from tests.grafana import boards
from tests.grafana.asking import View
from tests.grafana.page import WIDTH, page
from tests.grafana.scene import PLANTED, ROOT, Scene, staged
from tests.grafana.shown import COLOURS
from tests.launching import Launcher

IMAGES = ROOT / "docs" / "images"
MINUTES = 6.0
# A healthy beginning, a rank whose input is slow, then one that computes slowly.
COURSE = (
    Segment(1_500),
    Segment(1_800, "input", 1, delay=0.5),
    Segment(800),
    Segment(20_000, "forward", 0, delay=0.6),
)
MARKS = {"Diagnosis changes": "orange", "Restarts": "purple"}


def main() -> None:
    """Draw all of them."""
    prometheus, chromium = shutil.which("prometheus"), shutil.which("chromium")
    assert prometheus, "Prometheus is not installed"
    assert chromium, "Chromium is not installed"
    with (
        tempfile.TemporaryDirectory() as folder,
        Launcher(Path(folder)) as launcher,
        staged(launcher, prometheus, COURSE, rate_window="30s") as scene,
    ):
        _wait(scene)
        for name in boards.NAMES:
            _draw(chromium, Path(folder), scene, name)


def _wait(scene: Scene) -> None:
    """Until there is something to see; a sidecar dies on the way."""
    time.sleep(MINUTES * 60 * 0.6)
    scene.kill_sidecar(PLANTED)
    time.sleep(MINUTES * 60 * 0.4)


def _draw(chromium: str, folder: Path, scene: Scene, name: str) -> None:
    view = View.of(scene.server, name, scene.span, {"run": PLANTED})
    marks = [
        (float(each["values"][0][0]), COLOURS[colour])
        for mark, colour in MARKS.items()
        for each in view.series(boards.marked(name)[mark])
    ]
    text, height = page(view, marks)
    source = folder / f"{name}.html"
    source.write_text(text, encoding="utf-8")
    subprocess.run(
        [
            chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
            "--no-first-run", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", "--hide-scrollbars", f"--user-data-dir={folder / 'chromium'}",
            f"--window-size={WIDTH:.0f},{height}", f"--screenshot={IMAGES / f'grafana-{name}.png'}",
            source.as_uri(),
        ],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip


if __name__ == "__main__":
    main()
