"""Every query of every dashboard gets data from a Prometheus that has scraped real runs."""

from collections.abc import Iterator

import pytest

from benchmarks.accuracy.schedule import Segment
from tests.grafana import boards
from tests.grafana.asking import Series, View
from tests.grafana.boards import NAMES, Asked
from tests.grafana.scene import HEALTHY, PLANTED, STEPS, Scene, staged
from tests.launching import Launcher, eventually

SLOW = Segment(STEPS, "forward", 1, delay=0.8)
ON_DEVICES = "Devices that wait for the CPU"  # of which these runs have none
CHOICES: dict[str, tuple[dict[str, str], ...]] = {
    "run-overview": ({"run": PLANTED}, {"run": HEALTHY}, {"run": PLANTED, "rank": "1"}),
    "ranks": ({"run": PLANTED}, {"run": HEALTHY}, {"run": PLANTED, "rank": "1"}),
    "fleet": ({"runs": PLANTED},),
}


@pytest.fixture
def scene(launcher: Launcher, prometheus: str) -> Iterator[Scene]:
    with staged(launcher, prometheus, (Segment(150), SLOW)) as scene:
        yield scene


def view(scene: Scene, name: str, **chosen: str) -> View:
    return View.of(scene.server, name, scene.span, chosen)


def empty(scene: Scene) -> list[str]:
    """The queries that get nothing, whatever is chosen; at first nothing is."""
    return [
        query
        for name in NAMES
        for chosen in ({}, *CHOICES[name])
        for query in view(scene, name, **chosen).empty()
        if ON_DEVICES not in query
    ]


def of_panel(name: str, title: str) -> list[Asked]:
    return [asked for asked in boards.asked(name) if asked.panel == title]


def values(series: list[Series], label: str) -> dict[str, float]:
    return {each["metric"][label]: float(each["values"][-1][1]) for each in series}


def is_found(scene: Scene) -> bool:
    (diagnosis,) = of_panel("run-overview", "Diagnosis")
    told = [each["metric"] for each in view(scene, "run-overview", run=PLANTED).series(diagnosis)]
    found = {"state": "COMPUTE_STRAGGLER", "rank": "1", "phase": "forward"}
    return any(found.items() <= labels.items() for labels in told)


def longest_phase(scene: Scene, whose: str) -> str:
    (phases,) = of_panel("run-overview", f"Phases of the {whose} rank")
    times = values(view(scene, "run-overview", run=PLANTED).series(phases), "phase")
    return max(times, key=lambda phase: times[phase])


def test_every_query_of_every_dashboard_returns_data_and_the_culprit_is_where_one_looks(
    scene: Scene,
) -> None:
    eventually(lambda: is_found(scene), seconds=90)
    scene.kill_sidecar(PLANTED)
    restarts = boards.marked("run-overview")["Restarts"]
    eventually(lambda: view(scene, "run-overview", run=PLANTED).series(restarts))
    eventually(lambda: is_found(scene) and not empty(scene))

    overview = view(scene, "run-overview")
    assert overview.filled.options["run"] == [PLANTED, HEALTHY]  # the newest first
    assert overview.filled.options["rank"] == ["0", "1"]

    planted, healthy = (view(scene, "run-overview", run=run) for run in (PLANTED, HEALTHY))
    marks = planted.series(boards.marked("run-overview")["Diagnosis changes"])
    assert "COMPUTE_STRAGGLER" in {mark["metric"]["state"] for mark in marks}
    assert not healthy.series(restarts)

    eventually(lambda: longest_phase(scene, "worst") == "forward")
    eventually(lambda: longest_phase(scene, "typical") == "collective_wait")  # as healthy steps go

    ranks = view(scene, "ranks", run=PLANTED)
    own, late, lost, *_ = of_panel("ranks", "Worst ranks")
    for asked in (own, late, lost):
        of_ranks = values(ranks.series(asked), "rank")
        assert of_ranks["1"] > of_ranks["0"]
    assert values(ranks.series(late), "rank")["1"] > 1

    share, *_ = of_panel("fleet", "Runs, worst first")
    of_runs = values(view(scene, "fleet").series(share), "run")
    assert of_runs[PLANTED] > of_runs[HEALTHY]

    (stood_out,) = (asked for asked in boards.asked("run-overview") if asked.exemplar)
    led_to = {each["labels"]["trace_id"] for each in planted.exemplars(stood_out)}
    assert led_to
    assert led_to <= {span.trace_id.hex() for span in scene.received.spans()}
