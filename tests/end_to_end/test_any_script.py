"""Scripts that know nothing of TraceML, and what is theirs stays theirs."""

import signal
import sys
from pathlib import Path

from tests.launching import Launcher
from tests.shapes.shape import SCRIPTS

UNAWARE = str(SCRIPTS / "loop_no_loader.py")


def script(launcher: Launcher, text: str) -> str:
    file = launcher.folder / "script.py"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_env_connects_a_script_that_something_else_starts(launcher: Launcher) -> None:
    sidecar = launcher.popen(
        launcher.command("sidecar", "--run-name", "test", "--metrics-port", "0")
    )
    endpoint = launcher.sidecar()["endpoint"]
    printed = launcher.call("env", endpoint).stdout
    environment = dict(line.split("=", 1) for line in printed.splitlines())
    assert environment["TRACEML_ENDPOINT"] == endpoint
    training = launcher.popen([sys.executable, UNAWARE], environment)
    assert launcher.finish(training).exit_code == 0
    sidecar.send_signal(signal.SIGTERM)
    assert launcher.finish(sidecar).summary["step_time"]["steps"]["completed"] == 12


def test_the_script_sees_nothing_of_how_it_is_traced(launcher: Launcher) -> None:
    told = script(launcher, "import sys; print(sys.argv, __name__, __file__, sys.path[0])\n")
    run = launcher.run(told, "--", "--lr", "1")
    assert run.stdout == f"{[told, '--lr', '1']} __main__ {told} {Path(told).parent}\n"


def test_a_traceback_is_the_script_s_own(launcher: Launcher) -> None:
    failing = script(launcher, "import torch\ndef train():\n    raise ValueError(3)\ntrain()\n")
    run = launcher.run(failing)
    before, _, _ = run.stderr.partition("\n\nTraceML ")
    assert run.exit_code == 1
    assert before.count("File ") == 2
    assert before.endswith("ValueError: 3")


def test_a_script_that_does_not_train_is_said_to_do_so(launcher: Launcher) -> None:
    run = launcher.run(script(launcher, "import torch\ntorch.nn.Linear(2, 2)(torch.ones(1, 2))\n"))
    assert run.exit_code == 0
    (note,) = run.summary["notes"]
    assert note.startswith("No training was seen")


def test_scopes_and_zero_code_never_count_a_step_twice(launcher: Launcher) -> None:
    both = script(
        launcher,
        "import torch, traceml\n"
        "model = torch.nn.Linear(2, 2)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "def step():\n"
        "    model(torch.ones(1, 2)).sum().backward()\n"
        "    optimizer.step()\n"
        "for _ in range(5):\n"
        "    step()\n"
        "for number in range(7):\n"
        "    with traceml.trace_step(model):\n"
        "        step()\n"
        "        if number == 3:\n"
        "            traceml.step_tag('upload')\n",
    )
    steps = launcher.run(both).summary["step_time"]["steps"]
    assert steps == {"completed": 12, "incomplete": 0, "excluded": {"warmup": 1, "user": 1}}


def test_a_program_that_the_training_starts_is_no_rank_of_it(launcher: Launcher) -> None:
    starts = script(
        launcher,
        "import subprocess, sys\n"
        f"if len(sys.argv) == 1:\n    exec(open({UNAWARE!r}).read())\n"
        f"    subprocess.run([sys.executable, {UNAWARE!r}], check=True)\n",
    )
    run = launcher.run(starts)
    assert run.stdout.count("loss ") == 24
    assert run.summary["step_time"]["steps"]["completed"] == 12
