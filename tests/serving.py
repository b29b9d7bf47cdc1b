"""A real ingest on a real socket, in this process, for as long as a test needs it."""

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from traceml.sidecar.access import Access
from traceml.sidecar.collector import Collector
from traceml.sidecar.ingest import Ingest
from traceml.sidecar.journal import Journal
from traceml.sidecar.ledger import Ledger

JOURNAL_BYTES = 8 * 2**20


@contextmanager
def serving(
    collector: Collector,
    endpoint: str,
    access: Access | None = None,
    folder: Path | None = None,
) -> Iterator[str]:
    """Ingest, ledger and journal on a thread of their own; yields where they can be reached."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def call(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(10)

    async def start(folder: Path) -> tuple[Ledger, "asyncio.Task[None]", Ingest, str]:
        ledger = Ledger(collector, Journal(folder, JOURNAL_BYTES, collector.run))
        ingest = Ingest(ledger, collector, access or Access(), collector.snapshot)
        reachable = ingest.bind(endpoint)
        await ledger.open()
        keeper = asyncio.create_task(ledger.keep())
        await ingest.start()
        return ledger, keeper, ingest, reachable

    async def stop(ledger: Ledger, keeper: "asyncio.Task[None]", ingest: Ingest) -> None:
        await ingest.stop()
        keeper.cancel()
        await ledger.close()

    with tempfile.TemporaryDirectory() as name:
        try:
            ledger, keeper, ingest, reachable = call(start(folder or Path(name)))
            try:
                yield reachable
            finally:
                call(stop(ledger, keeper, ingest))
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
