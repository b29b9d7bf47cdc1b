"""`traceml compare` as people and CI run it: files, formats, exit codes, and mistakes."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.launching import Finished, Launcher
from tests.report.compare.made import Workload, made_summary, write_summary

CALM = Workload(step_noise=0.02, hiccups=0.0, run_noise=0.002)


@pytest.fixture
def runs(launcher: Launcher) -> Path:
    """logs/ with three baselines, a slower run, an equal one and a short one."""
    rng = np.random.default_rng(4)
    workloads = {
        "base-1": CALM,
        "base-2": CALM,
        "base-3": CALM,
        "slower": CALM.slower("forward", 0.25),
        "equal": CALM,
        "short": Workload(steps=6),
    }
    logs = launcher.folder / "logs"
    for name, workload in workloads.items():
        write_summary(logs / name, made_summary(rng, workload, name))
    return logs


BASES = ("--base", "logs/base-2", "--base", "logs/base-3")


def compared(launcher: Launcher, *arguments: str) -> Finished:
    finished = launcher.call("compare", *arguments)
    assert finished.stderr == ""
    return finished


def record(launcher: Launcher, name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((launcher.folder / "compare" / name).read_text())
    return document


@pytest.mark.usefixtures("runs")
def test_both_files_are_written_and_the_text_is_printed(launcher: Launcher) -> None:
    finished = compared(launcher, "logs/base-1/final_summary.json", "logs/slower")
    assert finished.exit_code == 0
    assert finished.stdout.startswith("REGRESSION (high confidence)  forward\n")
    written = sorted(file.name for file in (launcher.folder / "compare").iterdir())
    assert written == ["base-1_vs_slower.json", "base-1_vs_slower.txt"]
    text = (launcher.folder / "compare" / "base-1_vs_slower.txt").read_text()
    assert text == finished.stdout
    assert record(launcher, "base-1_vs_slower.json")["causes"][0]["phase"] == "forward"


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    "arguments",
    [
        ("logs/base-1", "logs/equal", *BASES),
        ("--base", "logs/base-1", *BASES, "logs/equal"),
        (*BASES, "logs/base-1", "logs/equal"),
    ],
)
def test_baselines_may_stand_anywhere(launcher: Launcher, arguments: tuple[str, ...]) -> None:
    finished = compared(launcher, *arguments, "--format", "json", "--output-dir", "out")
    document = json.loads(finished.stdout)
    assert document["verdict"] == "EQUIVALENT"
    assert {base["name"] for base in document["bases"]} == {"base-1", "base-2", "base-3"}
    assert document["run_noise_learned"] is True
    assert len(list((launcher.folder / "out").iterdir())) == 2


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("candidate", "gate", "exit_code"),
    [
        ("slower", (), 0),
        ("slower", ("--fail-on", "regression"), 1),
        ("slower", ("--fail-on", "regression,inconclusive"), 1),
        ("slower", ("--max", "step_time=5%"), 1),
        ("slower", ("--max", "step_time=40%", "--max", "memory=10%"), 0),
        ("equal", ("--fail-on", "regression,inconclusive", "--max", "step_time=5%"), 0),
        ("short", ("--fail-on", "regression"), 0),
        ("short", ("--fail-on", "inconclusive"), 3),
        ("short", ("--max", "step_time=5%", "--fail-on", "regression,inconclusive"), 3),
    ],
)
def test_the_exit_code_is_the_gate_s(
    launcher: Launcher, candidate: str, gate: tuple[str, ...], exit_code: int
) -> None:
    finished = compared(launcher, "logs/base-1", f"logs/{candidate}", *BASES, *gate)
    assert finished.exit_code == exit_code, finished.stdout


@pytest.mark.usefixtures("runs")
def test_a_threshold_decides_what_is_news(launcher: Launcher) -> None:
    finished = compared(launcher, "logs/base-1", "logs/slower", *BASES, "--threshold", "60%")
    assert finished.stdout.startswith("EQUIVALENT")


def test_an_environment_that_must_be_the_same_leaves_it_open(
    launcher: Launcher, runs: Path
) -> None:
    other = made_summary(np.random.default_rng(5), CALM.slower("other", 0.5), torch="2.14.0")
    write_summary(runs / "other", other)
    arguments = ("logs/base-1", "logs/other", "--fail-on", "regression,inconclusive")
    assert compared(launcher, *arguments).exit_code == 1
    assert compared(launcher, *arguments, "--require-same-environment").exit_code == 3


@pytest.mark.usefixtures("runs")
def test_markdown_is_printed(launcher: Launcher) -> None:
    finished = compared(launcher, "logs/base-1", "logs/slower", "--format", "markdown")
    assert finished.stdout.startswith("### REGRESSION")
    assert "| Total step | 20." in finished.stdout


@pytest.mark.usefixtures("runs")
def test_a_job_s_page_gets_the_markdown_and_its_log_the_text(launcher: Launcher) -> None:
    page = launcher.folder / "page.md"
    page.write_text("before\n")
    command = launcher.command("compare", "logs/base-1", "logs/slower", "--format", "github")
    finished = launcher.finish(launcher.popen(command, {"GITHUB_STEP_SUMMARY": str(page)}))
    assert finished.exit_code == 0
    assert finished.stdout.startswith("REGRESSION")
    assert page.read_text().startswith("before\n### REGRESSION")


def assert_one_line(finished: Finished, *words: str) -> None:
    assert finished.exit_code == 2, finished.stderr
    assert finished.stdout == ""
    assert finished.stderr.startswith("traceml: error: ")
    assert len(finished.stderr.splitlines()) == 1
    for word in words:
        assert word in finished.stderr


@pytest.mark.usefixtures("runs")
def test_no_page_to_write_to(launcher: Launcher) -> None:
    command = launcher.command("compare", "logs/base-1", "logs/slower", "--format", "github")
    finished = launcher.finish(launcher.popen(command, {"GITHUB_STEP_SUMMARY": ""}))
    assert finished.exit_code == 0
    assert finished.stdout.startswith("REGRESSION")
    assert "GITHUB_STEP_SUMMARY is not set" in finished.stderr


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "required: RUN"),
        (("logs/base-1",), "nothing to compare with"),
        (("logs/base-1", "logs/base-2", "logs/base-3"), "further baselines go behind --base"),
        (("logs/base-1", "logs/equal", "--threshold", "5"), "'5' is no percentage such as 5%"),
        (("logs/base-1", "logs/equal", "--threshold", "-5%"), "--threshold"),
        (("logs/base-1", "logs/equal", "--max", "speed=5%"), "'speed=5%' is none like"),
        (("logs/base-1", "logs/equal", "--max", "memory"), "'memory' is none like"),
        (("logs/base-1", "logs/equal", "--max", "memory=nan%"), "'nan%' is no percentage"),
        (("logs/base-1", "logs/equal", "--fail-on", "slow"), "'slow' is none of regression"),
        (("logs/base-1", "logs/equal", "--format", "yaml"), "invalid choice: 'yaml'"),
        (("logs/base-1", "logs/equal", "--wat"), "(see traceml compare --help)"),
        (("logs/base-1", "nowhere"), "no such file or folder: nowhere"),
        (("logs", "logs/equal"), "logs is a folder without a final_summary.json"),
        (("logs/base-1", "logs/equal", "--base", "gone"), "no such file or folder: gone"),
        (("logs/base-1", "logs/base-1"), "a run is named twice"),
        (("logs/base-1", "logs/copy"), "logs/base-1 and logs/copy are the same run"),
        (("logs/base-1", "logs/equal", "--base", "logs/copy"), "are the same run"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    launcher: Launcher, arguments: tuple[str, ...], complaint: str
) -> None:
    shutil.copytree(launcher.folder / "logs" / "base-1", launcher.folder / "logs" / "copy")
    assert_one_line(launcher.call("compare", *arguments), complaint)


@pytest.mark.usefixtures("runs")
def test_a_folder_that_can_not_be_written_to_does_not_hide_the_verdict(launcher: Launcher) -> None:
    folder = ("--output-dir", "logs/equal/final_summary.json")
    finished = launcher.call("compare", "logs/base-1", "logs/slower", *folder)
    assert finished.exit_code == 2
    assert finished.stdout.startswith("REGRESSION")
    assert "cannot write to logs/equal/final_summary.json" in finished.stderr


@pytest.mark.usefixtures("runs")
def test_output_that_nobody_can_take_is_no_regression(launcher: Launcher) -> None:
    command = launcher.command("compare", "logs/base-1", "logs/equal")
    with Path("/dev/full").open("w") as full:
        finished = subprocess.run(
            command, cwd=launcher.folder, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert finished.returncode == 73
    assert finished.stderr == (
        "traceml: error: cannot write to standard output: No space left on device\n"
    )


@pytest.mark.usefixtures("runs")
def test_a_terminal_without_our_characters_gets_the_others(launcher: Launcher) -> None:
    command = launcher.command("compare", "logs/base-1", "logs/equal")
    finished = launcher.finish(launcher.popen(command, {"PYTHONIOENCODING": "ascii"}))
    assert finished.exit_code == 0
    assert "Total step" in finished.stdout


@pytest.mark.parametrize(
    ("contents", "complaint"),
    [
        (b"", "is empty"),
        (b'{"schema_version": 1, "run": {"na', "is no JSON"),
        (b"\x7fELF\x00\xff\xfe", "is no text"),
        (b"[1, 2]", "it has no schema_version"),
        (b'{"schema_version": NaN}', "holds NaN"),
        (b'{"schema_version": 3}', "schema version 3"),
    ],
)
def test_a_summary_that_is_none_is_one_line_and_exit_code_2(
    launcher: Launcher, runs: Path, contents: bytes, complaint: str
) -> None:
    (runs / "equal" / "final_summary.json").write_bytes(contents)
    finished = launcher.call("compare", "logs/base-1", "logs/equal")
    assert_one_line(finished, "logs/equal/final_summary.json ", complaint)
    assert not (launcher.folder / "compare").exists()


def test_a_name_can_not_lead_out_of_the_folder(launcher: Launcher, runs: Path) -> None:
    document = made_summary(np.random.default_rng(5), CALM, "../../../evil")
    write_summary(runs / "evil", document)
    compared(launcher, "logs/evil", "logs/equal")
    written = {file.name for file in (launcher.folder / "compare").iterdir()}
    assert written == {"evil_vs_equal.json", "evil_vs_equal.txt"}


def test_help_teaches_verdicts_exit_codes_and_examples(launcher: Launcher) -> None:
    text = launcher.call("compare", "--help").stdout
    for word in (
        "INCONCLUSIVE",
        "exit codes:",
        "--base logs/a --base logs/b",
        "--max step_time=5%",
    ):
        assert word in text
