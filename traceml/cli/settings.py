"""Settings: a flag beats TRACEML_* in the environment, that beats the file, that the default."""

import argparse
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traceml.cli.errors import BAD_CONFIG, USAGE, CommandError
from traceml.cli.toml import read_toml
from traceml.publish.otlp.settings import check_endpoint
from traceml.sidecar.config import DEFAULT_MAX_MB
from traceml.sidecar.journal import MIN_MAX_MB
from traceml.sidecar.listen import PORT

MODES = ("summary",)


def _mode(value: Any) -> str:
    if value not in MODES:
        raise ValueError(f"must be one of {', '.join(MODES)}")
    return str(value)


def _port(value: Any) -> int:
    if isinstance(value, bool) or not 0 <= int(value) <= 65_535:
        raise ValueError("must be a port, 0 to 65535")
    return int(value)


def _interval(value: Any) -> float:
    if isinstance(value, bool) or not 0.1 <= float(value) <= 60:
        raise ValueError("must be 0.1 to 60 seconds")
    return float(value)


def _linger(value: Any) -> float:
    if isinstance(value, bool) or not 0 <= float(value) <= 3600:
        raise ValueError("must be 0 to 3600 seconds")
    return float(value)


def _journal_max_mb(value: Any) -> int:
    if isinstance(value, bool) or not MIN_MAX_MB <= float(value) <= 1_000_000:
        raise ValueError(f"must be {MIN_MAX_MB} to 1000000 megabytes")
    return int(float(value))


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a text that is not empty")
    return value


def _path(value: Any) -> Path:
    return Path(_text(value)).expanduser()


def _endpoint(value: Any) -> str:
    return check_endpoint(_text(value))


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() in ("1", "true", "yes", "on"):
        return True
    if str(value).lower() in ("", "0", "false", "no", "off"):
        return False
    raise ValueError("must be true or false")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its name in files, its type, its default, and what it does."""

    name: str
    parse: Callable[[Any], Any]
    default: Any
    metavar: str | None
    help: str

    @property
    def flag(self) -> str:
        """Its command-line flag."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return "TRACEML_" + self.name.upper()


SHARED = (
    Setting("run_name", _text, None, "NAME", "name of the run and of its folder"),
    Setting("logs_dir", _path, Path("logs"), "DIR", "where run folders go (default: logs)"),
    Setting("metrics_host", _text, "127.0.0.1", "HOST",
            "address to serve /metrics on (default: 127.0.0.1)"),
    Setting("metrics_port", _port, PORT, "PORT",
            f"port to serve /metrics on, or the next free one (default: {PORT})"),
    Setting("sd_file", _path, None, "FILE",
            "write a Prometheus file_sd target here, until the last values were scraped"),
    Setting("textfile_dir", _path, None, "DIR",
            "write the final state here for node_exporter's textfile collector"),
    Setting("otlp_endpoint", _endpoint, None, "URL",
            "send metrics, and traces of steps that stand out, to this OTLP endpoint, such as "
            "http://localhost:4317 (default: as the OTEL_* variables say)"),
    Setting("no_rank_metrics", _flag, False, None,
            "publish no traceml_rank_* series: fewer, and no comparison across nodes"),
    Setting("linger", _linger, None, "SECONDS",
            "after the run, serve its last values so long or until they are scraped (default: "
            "twice the interval of scrapers seen, at most 60; 0 turns it off)"),
    Setting("journal_max_mb", _journal_max_mb, DEFAULT_MAX_MB, "MB",
            f"how large the run's journal may become, at least {MIN_MAX_MB} "
            f"(default: {DEFAULT_MAX_MB})"),
    Setting("policy", _path, None, "FILE",
            "thresholds of the diagnoses, TOML (`traceml policy` prints the defaults)"),
    Setting("interval", _interval, 1.0, "SECONDS",
            "how often the figures are made anew (default: 1)"),
)  # fmt: skip

FOR_RUN = (
    Setting("mode", _mode, "summary", "MODE", "what to show: summary, at the end (default)"),
    *SHARED,
    Setting("wait", _flag, False, None,
            "return only when the last values were scraped: where all that a command leaves behind "
            "is killed, as in a Slurm step or a container"),
    Setting("no_command", _flag, False, None,
            "keep the script's arguments out of all files of the run (without it they are kept, "
            "with what looks like a secret masked)"),
    Setting("disable_traceml", _flag, False, None, "run the script as if TraceML were not there"),
)  # fmt: skip


FOR_SIDECAR = (
    Setting("listen", _text, None, "ADDRESS",
            "where ranks report: unix://PATH or tcp://HOST:PORT (default: a new socket in a "
            "private folder)"),
    Setting("token_file", _path, None, "FILE", "TCP: ranks must show the token in this file"),
    Setting("tls_cert", _path, None, "FILE", "TCP: the sidecar's own certificate, PEM"),
    Setting("tls_key", _path, None, "FILE", "TCP: the key of that certificate, PEM"),
    Setting("tls_client_ca", _path, None, "FILE",
            "TCP: ranks must have a certificate signed by this one, PEM"),
    Setting("insecure", _flag, False, None, "TCP: let anybody report who reaches the port"),
    *SHARED,
)  # fmt: skip

_KNOWN = {setting.name for setting in (*FOR_RUN, *FOR_SIDECAR)}


def add_flags(parser: argparse.ArgumentParser, settings: tuple[Setting, ...]) -> None:
    """One flag a setting."""
    group = parser.add_argument_group(
        "settings",
        "Each can also be set as TRACEML_<NAME> in the environment, or by its name with "
        "underscores in traceml.toml or under [tool.traceml] in pyproject.toml.",
    )
    for setting in settings:
        if setting.metavar is None:
            group.add_argument(setting.flag, action="store_true", default=None, help=setting.help)
        else:
            group.add_argument(setting.flag, metavar=setting.metavar, help=setting.help)


def resolve(parsed: argparse.Namespace, settings: tuple[Setting, ...]) -> dict[str, Any]:
    """The value of every setting, by name."""
    in_file, file = _read_file(Path.cwd())
    return {setting.name: _value(setting, parsed, in_file, file) for setting in settings}


def _value(
    setting: Setting, parsed: argparse.Namespace, in_file: Mapping[str, Any], file: str
) -> Any:
    sources: list[tuple[Any, str, int]] = [
        (getattr(parsed, setting.name), setting.flag, USAGE),
        (os.environ.get(setting.variable), setting.variable, USAGE),
        (in_file.get(setting.name), f"{setting.name} in {file}", BAD_CONFIG),
    ]
    for given, source, exit_code in sources:
        if given is None:
            continue
        try:
            return setting.parse(given)
        except (TypeError, ValueError) as error:
            reason = str(error) if str(error).startswith("must") else "is not a number"
            raise CommandError(f"{source}: {given!r} {reason}", exit_code) from None
    return setting.default


def _read_file(directory: Path) -> tuple[Mapping[str, Any], str]:
    own = directory / "traceml.toml"
    if own.exists():
        return _checked(read_toml(own), own.name), own.name
    project = directory / "pyproject.toml"
    if not project.exists():
        return {}, ""
    tool = read_toml(project).get("tool", {})
    return _checked(tool.get("traceml", {}), "[tool.traceml]"), "[tool.traceml]"


def _checked(table: Any, source: str) -> Mapping[str, Any]:
    if not isinstance(table, dict):
        raise CommandError(f"{source} must be a table", BAD_CONFIG)
    unknown = sorted(set(table) - _KNOWN)
    if unknown:
        raise CommandError(
            f"{source}: unknown setting {unknown[0]!r}; known are {', '.join(sorted(_KNOWN))}",
            BAD_CONFIG,
        )
    return table
