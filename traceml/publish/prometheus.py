"""What a scraper gets: the form it asks for, gzipped on request."""

import gzip
from collections.abc import Sequence

from prometheus_client.exposition import choose_encoder

from traceml.publish.catalogue import CATALOGUE
from traceml.publish.exposition import Form, Writer
from traceml.publish.metric import Metric
from traceml.snapshot import Snapshot


class Exposition:
    """Renders each Snapshot at most once per form, however many scrapers ask."""

    def __init__(self, catalogue: Sequence[Metric] = CATALOGUE) -> None:
        self._writer = Writer(catalogue)
        self._snapshot: Snapshot | None = None
        self._rendered: dict[tuple[Form, bool], bytes] = {}

    def render(self, snapshot: Snapshot, accept: str, zipped: bool) -> tuple[bytes, str]:
        """The body and its content type for an Accept header."""
        if snapshot is not self._snapshot:
            self._snapshot = snapshot
            self._rendered.clear()
        content_type = _content_type(accept)
        return self._body(snapshot, Form(content_type.split(";")[0]), zipped), content_type

    def _body(self, snapshot: Snapshot, form: Form, zipped: bool) -> bytes:
        body = self._rendered.get((form, zipped))
        if body is None:
            body = self._zipped(snapshot, form) if zipped else self._writer.write(snapshot, form)
            self._rendered[form, zipped] = body
        return body

    def _zipped(self, snapshot: Snapshot, form: Form) -> bytes:
        return gzip.compress(self._body(snapshot, form, zipped=False), compresslevel=1, mtime=0)


def _content_type(accept: str) -> str:
    # Our names are written as they are, as every scheme but this one would have them.
    accept = accept.replace("escaping=dots", "escaping=underscores")
    try:
        return choose_encoder(accept)[1]
    except (TypeError, ValueError):  # a version that is no version: as if nothing were asked
        return choose_encoder("")[1]
