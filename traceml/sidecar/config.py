"""What a sidecar is told: which run it serves, and how that run ended."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """What is known of a run before any rank has spoken."""

    name: str
    id: str
    command: tuple[str, ...]
    started_at: float
    ranks_expected: int | None


@dataclass(frozen=True, slots=True)
class Config:
    """What a sidecar is told when it starts."""

    run: RunIdentity
    directory: Path
    endpoint: str
    interval_seconds: float
    sd_file: Path | None

    def to_json(self) -> str:
        """One line for the sidecar's standard input."""
        return json.dumps(
            {
                "run": asdict(self.run),
                "directory": str(self.directory),
                "endpoint": self.endpoint,
                "interval_seconds": self.interval_seconds,
                "sd_file": str(self.sd_file) if self.sd_file else None,
            }
        )

    @classmethod
    def from_json(cls, line: str) -> "Config":
        """What `to_json` wrote."""
        fields = json.loads(line)
        run = fields["run"]
        return cls(
            run=RunIdentity(**{**run, "command": tuple(run["command"])}),
            directory=Path(fields["directory"]),
            endpoint=fields["endpoint"],
            interval_seconds=fields["interval_seconds"],
            sd_file=Path(fields["sd_file"]) if fields["sd_file"] else None,
        )


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended."""

    state: str
    exit_code: int | None
