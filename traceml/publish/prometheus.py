"""What a scraper gets: the form it asks for, gzipped on request."""

import gzip
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from prometheus_client.exposition import choose_encoder

from traceml.publish.catalogue import CATALOGUE
from traceml.publish.exposition import Form, Writer
from traceml.publish.metric import Metric
from traceml.snapshot import Snapshot

REMEMBERED_SECONDS = 90.0  # longer than scrapers usually stay away


class Wanted(NamedTuple):
    """How a scraper wants to have it."""

    form: Form
    zipped: bool


@dataclass(slots=True)
class Shown:
    """A Snapshot, and what was written of it."""

    snapshot: Snapshot
    bodies: dict[Wanted, bytes] = field(default_factory=dict)


class Exposition:
    """The latest Snapshot, written at most once per form, however many scrapers ask.

    What they asked for lately is written before they come again: all of them may come at once.
    One thread may show Snapshots while another answers.
    """

    def __init__(
        self, catalogue: Sequence[Metric] = CATALOGUE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._writer = Writer(catalogue)
        self._clock = clock
        self._shown: Shown | None = None
        self._asked_at: dict[Wanted, float] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to be scraped yet."""
        return self._shown is None

    def show(self, snapshot: Snapshot) -> None:
        """From now on answer with this one."""
        shown = Shown(snapshot)
        lately = self._clock() - REMEMBERED_SECONDS
        for wanted, at in self._asked_at.copy().items():
            if at > lately:
                self._body(shown, wanted)
        self._shown = shown

    def answer(self, accept: str, zipped: bool) -> tuple[bytes, str]:
        """The body and its content type for an Accept header; there must be a Snapshot."""
        assert self._shown is not None
        content_type = _content_type(accept)
        wanted = Wanted(Form(content_type.split(";")[0]), zipped)
        self._asked_at[wanted] = self._clock()
        return self._body(self._shown, wanted), content_type

    def _body(self, shown: Shown, wanted: Wanted) -> bytes:
        body = shown.bodies.get(wanted)
        if body is None:
            body = shown.bodies[wanted] = self._written(shown, wanted)
        return body

    def _written(self, shown: Shown, wanted: Wanted) -> bytes:
        if not wanted.zipped:
            return self._writer.write(shown.snapshot, wanted.form)
        plain = self._body(shown, Wanted(wanted.form, zipped=False))
        return gzip.compress(plain, compresslevel=1, mtime=0)


def _content_type(accept: str) -> str:
    # Our names are written as they are, as every scheme but this one would have them.
    accept = accept.replace("escaping=dots", "escaping=underscores")
    try:
        return choose_encoder(accept)[1]
    except (TypeError, ValueError):  # a version that is no version: as if nothing were asked
        return choose_encoder("")[1]
