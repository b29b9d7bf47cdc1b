from pathlib import Path

import pytest

from traceml.cli.main import main


def test_the_defaults_can_be_printed_and_given_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["policy"]) == 0
    file = tmp_path / "policy.toml"
    file.write_text(capsys.readouterr().out)
    assert main(["policy", "--check", str(file)]) == 0
    assert "changes nothing" in capsys.readouterr().out
    file.write_text("stalled_seconds = 5\n")
    assert main(["policy", "--check", str(file)]) == 0
    assert "changes stalled_seconds" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "message", "exit_code"),
    [
        ("no_such = 1\n", "no_such is no threshold (`traceml policy` prints all there are)", 78),
        ("straggler_warning = 7\n", "straggler_warning must be 0 to 1", 78),
        ("straggler_warning = \n", "is no TOML: Invalid value", 78),
        (None, "no such policy file", 66),
    ],
)
def test_a_file_that_makes_no_sense_is_a_clear_error(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: str | None,
    message: str,
    exit_code: int,
) -> None:
    file, script = tmp_path / "policy.toml", tmp_path / "train.py"
    script.write_text("")
    if content is not None:
        file.write_text(content)
    logs = tmp_path / "logs"
    assert main(["run", "--policy", str(file), "--logs-dir", str(logs), str(script)]) == exit_code
    assert message in capsys.readouterr().err
    assert not logs.exists()
