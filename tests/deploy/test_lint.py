"""Linters and the programs' own checkers find nothing in what is deployed."""

import re
import sys
from pathlib import Path

import pytest

from tests.deploy.tools import (
    DEPLOY,
    GRAFANA,
    ROOT,
    linter,
    optional_program,
    passes,
    shell_scripts,
)
from tests.javascript.tools import said

UNIT = DEPLOY / "systemd" / "traceml-sidecar@.service"
EXPOSURE = 20  # tenths: systemd calls this OK; it begins at 96

SCHEMAS = {
    "compose-spec": DEPLOY / "compose" / "compose.yaml",
    "github-actions": DEPLOY / "github-action" / "action.yml",
    "gitlab-ci": DEPLOY / "gitlab" / "traceml-compare.gitlab-ci.yml",
}


def test_yamllint_finds_nothing() -> None:
    passes(linter("yamllint"), "--strict", DEPLOY, GRAFANA, cwd=ROOT)


@pytest.mark.parametrize("script", shell_scripts(), ids=lambda file: file.name)
def test_shellcheck_finds_nothing(script: Path) -> None:
    passes(linter("shellcheck"), script)


def test_hadolint_finds_nothing() -> None:
    passes(linter("hadolint"), DEPLOY / "docker" / "Dockerfile")


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_file_keeps_to_its_published_schema(schema: str) -> None:
    passes(linter("check-jsonschema"), "--builtin-schema", f"vendor.{schema}", SCHEMAS[schema])


def test_actionlint_finds_nothing_in_the_workflow_that_is_shown() -> None:
    page = (DEPLOY / "github-action" / "README.md").read_text()
    (workflow,) = re.findall(r"```yaml\n(.+?)```", page, re.DOTALL)
    assert said("lint_workflow.mjs", workflow) == ""
    assert "property" in said("lint_workflow.mjs", workflow.replace("event_name", "event_nam"))


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit as it would be installed; it names a program, which has to exist."""
    installed = tmp_path / UNIT.name
    text = UNIT.read_text()
    assert "ExecStart=/opt/traceml/bin/traceml sidecar " in text
    installed.write_text(text.replace("/opt/traceml/bin/traceml", sys.executable))
    return installed


def test_systemd_understands_the_unit(unit: Path) -> None:
    assert passes(optional_program("systemd-analyze"), "verify", unit) == ""


def test_systemd_calls_the_unit_well_shielded(unit: Path) -> None:
    passes(
        optional_program("systemd-analyze"), "security", "--offline=yes",
        f"--threshold={EXPOSURE}", unit,
    )  # fmt: skip
