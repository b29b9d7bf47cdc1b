import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.launching import eventually, kill_with_descendants
from tests.shapes.shape import SCRIPTS, Shape

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def plain_output(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Shape], str]]:
    """What a shape of one process prints without TraceML; all are run while the tests are."""
    folder = tmp_path_factory.mktemp("plain")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.shapes.plain", str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    with process.stdin as runs:
        json.dump([run_of(shape) for shape in shapes_of(request.session)], runs)

    def output(shape: Shape) -> str:
        file = folder / shape.name
        eventually(lambda: file.exists() or process.poll() is not None, seconds=120)
        code, _, printed = file.read_text(encoding="utf-8").partition("\n")
        assert code == "0", printed
        return printed

    yield output
    if process.poll() is None:
        kill_with_descendants(process.pid)
    process.wait()


def shapes_of(session: pytest.Session) -> list[Shape]:
    parameters = [item.callspec.params for item in session.items if hasattr(item, "callspec")]
    shapes = [found for of in parameters if isinstance(found := of.get("shape"), Shape)]
    return [shape for shape in shapes if shape.processes is None]


def run_of(shape: Shape) -> tuple[str, str, dict[str, str]]:
    return shape.name, str(SCRIPTS / f"{shape.script}.py"), dict(shape.environment)
