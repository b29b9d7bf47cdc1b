"""TraceML comes into a script that knows nothing of it, and the script does not notice."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from traceml.rank import inject

Run = Callable[..., "subprocess.CompletedProcess[str]"]

# functools.wraps makes ours look like torch's: its code does not.
IS_HOOKED = "'traceml' in torch.autograd.backward.__code__.co_filename"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a script as `traceml run` would; with `traced=False`, as without TraceML."""

    def run(
        script: str,
        traced: bool = True,
        environment: Mapping[str, str] | None = None,
        options: tuple[str, ...] = (),
    ) -> "subprocess.CompletedProcess[str]":
        (tmp_path / "script.py").write_text(script)
        own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        own |= environment or {}
        if traced:
            own = inject.environment({**own, "TRACEML_ENDPOINT": f"unix://{tmp_path}/nobody.sock"})
        return subprocess.run(
            [sys.executable, *options, "script.py"],
            cwd=tmp_path,
            env=own,
            capture_output=True,
            text=True,
        )

    return run


def said(finished: "subprocess.CompletedProcess[str]") -> list[str]:
    """What the script printed, if it ended well and nobody complained."""
    assert (finished.returncode, finished.stderr) == (0, "")
    return finished.stdout.splitlines()


def customize(folder: Path, text: str) -> dict[str, str]:
    """An environment with a sitecustomize of the user's."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(text)
    return {"PYTHONPATH": str(folder)}


def test_the_environment_keeps_what_the_user_had_on_the_path() -> None:
    assert inject.environment({"A": "b"}) == {"A": "b", "PYTHONPATH": inject.FOLDER}
    assert inject.environment({"PYTHONPATH": ""}) == {"PYTHONPATH": inject.FOLDER}
    both = inject.environment({"PYTHONPATH": "/x:/y"})["PYTHONPATH"]
    assert both == f"{inject.FOLDER}{os.pathsep}/x:/y"


@pytest.mark.parametrize("before", [None, "/x", "/x:/y"])
def test_leaving_the_environment_leaves_it_as_the_user_had_it(
    monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    own = {} if before is None else {"PYTHONPATH": before}
    for name, value in inject.environment(own).items():
        monkeypatch.setenv(name, value)
    for _ in range(2):
        inject.leave_environment()
        assert os.environ.get("PYTHONPATH") == before


def test_torch_is_hooked_in_a_script_that_only_imports_torch(run: Run) -> None:
    script = f"import torch; print({IS_HOOKED})"
    assert said(run(script)) == ["True"]
    assert said(run(script, traced=False)) == ["False"]


def test_names_imported_from_within_torch_are_the_hooked_ones(run: Run) -> None:
    script = "from torch.utils.data import DataLoader\nfrom torch import save\n"
    assert said(run(script + "print('traceml' in save.__code__.co_filename)")) == ["True"]


def test_torch_is_hooked_though_the_script_first_asked_whether_it_is_there(run: Run) -> None:
    script = (
        "from importlib.util import find_spec\n"
        "assert find_spec('torch') is not None\n"
        f"import torch; print({IS_HOOKED})"
    )
    assert said(run(script)) == ["True"]


def test_without_an_endpoint_nothing_happens(run: Run) -> None:
    script = f"import torch, sys; print({IS_HOOKED}, 'traceml' in sys.modules)"
    assert said(run(script, traced=False, environment={"PYTHONPATH": inject.FOLDER})) == [
        "False False"
    ]


def test_the_path_does_not_show_our_folder(run: Run) -> None:
    script = "import sys; print(*sys.path, sep='\\n')"
    assert said(run(script)) == said(run(script, traced=False))


def test_without_a_sitecustomize_of_the_user_s_there_seems_to_be_none(run: Run) -> None:
    script = "import sys; print('sitecustomize' in sys.modules)\nimport sitecustomize"
    plain, traced = run(script, traced=False), run(script)
    assert plain.stderr.endswith("ModuleNotFoundError: No module named 'sitecustomize'\n")
    assert (traced.returncode, traced.stdout) == (plain.returncode, plain.stdout)
    assert traced.stderr == plain.stderr


def test_a_sitecustomize_of_the_user_s_still_runs_and_once(run: Run, tmp_path: Path) -> None:
    mine = customize(tmp_path / "mine", "print('mine', __name__, __file__)\nvalue = 1\n")
    script = "import sitecustomize; print(sitecustomize.value, sitecustomize.__file__)"
    traced = said(run(script, environment=mine))
    assert traced == said(run(script, traced=False, environment=mine))
    assert len(traced) == 2


def test_a_sitecustomize_of_the_user_s_that_imports_torch_is_traced(
    run: Run, tmp_path: Path
) -> None:
    mine = customize(tmp_path / "mine", f"import torch; print({IS_HOOKED})\n")
    assert said(run("", environment=mine)) == ["True"]


@pytest.mark.parametrize(
    "text",
    [
        "raise RuntimeError('of the user')",
        "import nowhere_at_all",
        "raise SystemExit(7)",
        "syntax error",
    ],
)
def test_an_exception_in_it_behaves_as_without_us(run: Run, tmp_path: Path, text: str) -> None:
    mine = customize(tmp_path / "mine", text)
    script = "import sys; print('the script', 'sitecustomize' in sys.modules)"
    plain, traced = run(script, traced=False, environment=mine), run(script, environment=mine)
    assert (traced.returncode, traced.stdout) == (plain.returncode, plain.stdout)
    assert "traceml" not in traced.stderr or "Traceback" in plain.stderr
    assert traced.stderr.splitlines()[-1:] == plain.stderr.splitlines()[-1:]


def test_a_script_without_torch_loads_next_to_nothing_through_us(run: Run) -> None:
    script = "import sys; print(sorted(m for m in sys.modules if m.partition('.')[0] in heavy))"
    heavy = "heavy = {'torch', 'grpc', 'h2', 'numpy', 'google', 'psutil'}\n"
    assert said(run(heavy + script)) == ["[]"]


def test_a_script_that_imports_torch_but_does_not_train_loads_nothing_else(run: Run) -> None:
    script = (
        "import torch, sys\n"
        "print([m for m in ('grpc', 'h2', 'torch._dynamo', 'torch.distributed.checkpoint')"
        " if m in sys.modules])\n"
    )
    assert said(run(script)) == said(run(script, traced=False))


def test_what_a_training_starts_is_neither_injected_nor_called_a_rank(run: Run) -> None:
    script = (
        "import torch, os, subprocess, sys\n"
        "child = [sys.executable, '-c', 'import os, sys;'\n"
        '    \'print(os.environ.get("PYTHONPATH"), os.environ.get("TRACEML_ENDPOINT"),\'\n'
        "    '\"traceml\" in sys.modules)']\n"
        "torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()\n"
        "subprocess.run(child, check=True)\n"
    )
    assert said(run(script)) == ["None None False"]
    assert said(run(script, environment={"PYTHONPATH": "/x"})) == ["/x None False"]


def test_what_is_started_before_the_training_may_train(run: Run, tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(f"import torch; print({IS_HOOKED})")
    script = "import subprocess, sys; subprocess.run([sys.executable, 'child.py'], check=True)"
    assert said(run(script)) == ["True"]


def test_a_broken_traceml_does_not_stop_the_script(run: Run, tmp_path: Path) -> None:
    (tmp_path / "broken" / "traceml").mkdir(parents=True)
    (tmp_path / "broken" / "traceml" / "__init__.py").write_text("raise RuntimeError('broken')")
    environment = {"PYTHONPATH": str(tmp_path / "broken")}
    assert said(run("print('the script')", environment=environment)) == ["the script"]


def test_where_tracing_cannot_start_importing_torch_works_and_one_line_says_why(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "google.py").touch()  # a file of the user's, named like one we need
    finished = run("import torch\ntorch.ones(1, requires_grad=True).backward()\nprint('trained')")
    assert (finished.returncode, finished.stdout) == (0, "trained\n")
    assert [line for line in finished.stderr.splitlines() if "traceml" in line] == [
        line
        for line in finished.stderr.splitlines()
        if line.startswith("traceml: not tracing this process: ")
    ]
    assert finished.stderr.count("traceml: not tracing this process: ") == 1


def test_a_python_that_ignores_the_environment_is_left_alone(run: Run) -> None:
    script = f"import torch; print({IS_HOOKED})"
    assert said(run(script, options=("-E",))) == ["False"]
