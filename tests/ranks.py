"""Ranks without a training: the real sender, told of steps that nobody trained."""

import os
from collections.abc import Mapping

from tests.builders import make_identity
from traceml.rank.channel import open_channel
from traceml.rank.events import SCOPE, Recorder
from traceml.rank.sender import Sender


class Rank:
    """One rank of a run, reporting to a sidecar from this process."""

    def __init__(
        self,
        endpoint: str,
        rank: int = 0,
        world_size: int = 1,
        attempt: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.recorder = Recorder()
        self.recorder.note(SCOPE)
        os.environ.update(environment or {})
        try:
            self.sender = Sender(
                self.recorder,
                open_channel(endpoint),
                make_identity(rank, world_size, attempt),
                endpoint,
            )
        finally:
            for name in environment or {}:
                del os.environ[name]
        self.sender.start()
        self.trained = 0

    def train(self, steps: int) -> None:
        for _ in range(steps):
            self.recorder.finish()
        self.trained += steps

    @property
    def backlog(self) -> int:
        return self.sender._backlog_records

    def close(self) -> None:
        self.sender.close()

    def __enter__(self) -> "Rank":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
