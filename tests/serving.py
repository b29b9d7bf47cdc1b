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
from traceml.sidecar.endpoint import Endpoint
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

    async def start(folder: Path) -> tuple[Ledger, list["asyncio.Task[None]"], Endpoint, str]:
        ledger = Ledger(collector, Journal(folder, JOURNAL_BYTES, collector.run))
        shown = access or Access()
        ingest = Ingest(ledger, collector, shown, collector.snapshot)
        listening = Endpoint(ingest.new_server, shown)
        reachable = listening.bind(endpoint)
        await ledger.open()
        await listening.start()
        workers = [
            asyncio.create_task(work) for work in (ledger.keep(), listening.keep_reachable())
        ]
        return ledger, workers, listening, reachable

    async def stop(
        ledger: Ledger, workers: list["asyncio.Task[None]"], listening: Endpoint
    ) -> None:
        workers.pop().cancel()
        await listening.stop()
        workers.pop().cancel()
        await ledger.close()

    with tempfile.TemporaryDirectory() as name:
        try:
            ledger, workers, listening, reachable = call(start(folder or Path(name)))
            try:
                yield reachable
            finally:
                call(stop(ledger, workers, listening))
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
