"""What a sidecar is told: which run it serves, and how that run ended."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from traceml.sidecar.shapes import Count, Moment, Text, check_attributes

DEFAULT_MAX_MB = 256  # of a journal


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """What is known of a run before any rank has spoken."""

    name: Text
    id: Text
    command: tuple[str, ...]
    started_at: Moment
    ranks_expected: Count | None

    @classmethod
    def of(cls, fields: dict[str, Any]) -> "RunIdentity":
        """From what JSON makes of it; an error if it is nothing of the kind."""
        fields = {**fields, "command": tuple(fields["command"])}
        check_attributes(cls, fields)
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class Config:
    """What a sidecar is told when it starts."""

    run: RunIdentity
    directory: Path
    endpoint: str
    interval_seconds: float = 1.0
    sd_file: Path | None = None
    textfile_dir: Path | None = None
    linger_seconds: float | None = None  # None: as long as it takes, within reason
    journal_max_bytes: int = DEFAULT_MAX_MB * 2**20
    restarts: int = 0  # of the sidecar, as its launcher counts them
    policy: dict[str, float] = field(default_factory=dict)  # what differs from the defaults
    otlp_endpoint: str | None = None  # None: as the environment says
    rank_metrics: bool = True  # whether each rank has series of its own

    def to_json(self) -> str:
        """One line for the sidecar's standard input."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, line: str) -> "Config":
        """What `to_json` wrote."""
        fields = json.loads(line)
        fields["run"] = RunIdentity.of(fields["run"])
        for name in ("directory", "sd_file", "textfile_dir"):
            fields[name] = Path(fields[name]) if fields[name] else None
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended."""

    state: str
    exit_code: int | None
