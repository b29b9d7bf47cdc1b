"""The sidecar process: wires ingest, collector, host and HTTP, and decides when it ends."""

import asyncio
import json
import logging
import os
import signal
import socket
from contextlib import suppress

from traceml.files import write_atomically
from traceml.report.summary import write_summary
from traceml.sidecar.collector import Collector
from traceml.sidecar.config import Config, Ending
from traceml.sidecar.discovery import Discovery
from traceml.sidecar.host import HostSampler
from traceml.sidecar.http import Server, app
from traceml.sidecar.ingest import start_ingest
from traceml.sidecar.listen import address
from traceml.snapshot import Snapshot

log = logging.getLogger(__name__)


class Sidecar:
    """One run on one node, from the first rank's hello to the summary."""

    def __init__(self, config: Config, listener: socket.socket) -> None:
        self._config = config
        self._listener = listener
        self._collector = Collector(config.run)
        self._host = HostSampler()
        self._discovery = Discovery(config.sd_file)
        self._latest: Snapshot | None = None
        self._ending: asyncio.Future[Ending]

    async def serve(self, control: asyncio.StreamReader | None) -> Snapshot:
        """Work until the run has ended; returns its last Snapshot.

        `control` is the launcher's voice. Without one the run ends by SIGTERM or SIGINT.
        """
        self._ending = asyncio.get_running_loop().create_future()
        self._handle_signals()
        os.umask(0o077)  # the socket is for this user alone
        ingest = await start_ingest(self._collector, self._config.endpoint)
        web = Server(app(lambda: self._latest))
        tasks = [
            asyncio.create_task(web.serve(sockets=[self._listener])),
            asyncio.create_task(self._watch()),
        ]
        if control is not None:
            tasks.append(asyncio.create_task(self._listen(control)))
        for task in tasks:
            task.add_done_callback(self._on_done)
        self._announce()
        ending = await self._ending
        self._collector.end(ending.state, ending.exit_code)
        final = self._latest = self._collector.snapshot(self._host.sample())
        write_summary(final, self._config.directory)
        log.info("run %s: %s", self._config.run.name, ending.state)
        self._discovery.withdraw()
        await ingest.stop(grace=None)
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks)
        return final

    async def _watch(self) -> None:
        """Make a Snapshot each interval."""
        while True:
            self._latest = self._collector.snapshot(self._host.sample())
            await asyncio.sleep(self._config.interval_seconds)

    async def _listen(self, control: asyncio.StreamReader) -> None:
        """Wait for the launcher's word; if it dies, for the ranks to be gone as well."""
        line = await control.readline()
        if line:
            self._end(Ending(**json.loads(line)))
            return
        log.warning("the launcher is gone")
        while self._collector.is_anyone_reporting():
            await asyncio.sleep(0.5)
        self._end(Ending("interrupted", None))

    def _on_done(self, task: asyncio.Task[None]) -> None:
        """A part that failed ends the sidecar, which would serve what is no longer so."""
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._ending.done():
            self._ending.set_exception(error)

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)

    def _stop(self) -> None:
        state = "completed" if self._collector.have_all_parted() else "interrupted"
        self._end(Ending(state, None))

    def _end(self, ending: Ending) -> None:
        if not self._ending.done():
            self._ending.set_result(ending)

    def _announce(self) -> None:
        host, port = self._listener.getsockname()[:2]
        description = {
            "pid": os.getpid(),
            "run": self._config.run.name,
            "endpoint": self._config.endpoint,
            "metrics": f"http://{address(host, port)}/metrics",
        }
        write_atomically(
            self._config.directory / "sidecar.json", json.dumps(description, indent=2) + "\n"
        )
        self._discovery.publish(host, port)
        log.info("run %s: %s", self._config.run.name, description)
