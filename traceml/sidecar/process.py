"""The sidecar process: wires journal, ingest, collector and HTTP, and decides when it ends."""

import asyncio
import gc
import json
import logging
import os
import signal
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy.ma  # noqa: F401 (loaded by numpy at first use, when no descriptor may be left)

from traceml.files import encoded, opened, write_in
from traceml.publish.catalogue import CATALOGUE, WITHOUT_RANKS
from traceml.publish.otlp import settings as otlp
from traceml.publish.prometheus import Exposition
from traceml.publish.textfile import write_textfile
from traceml.report.summary import summarized
from traceml.report.text import summary_text
from traceml.report.writing import write_summary
from traceml.sidecar.access import Access
from traceml.sidecar.collector import Collector
from traceml.sidecar.config import Config, Ending
from traceml.sidecar.descriptors import patiently, raise_limit
from traceml.sidecar.discovery import Discovery
from traceml.sidecar.endpoint import Endpoint
from traceml.sidecar.handover import offered
from traceml.sidecar.host import HostSampler
from traceml.sidecar.http import Server, app
from traceml.sidecar.ingest import Ingest
from traceml.sidecar.journal import Journal
from traceml.sidecar.ledger import Ledger
from traceml.sidecar.linger import MAX_LINGER_SECONDS, Linger
from traceml.sidecar.listen import address
from traceml.sidecar.rebuild import ANNOUNCEMENT
from traceml.sidecar.recovery import FOLDER, recover
from traceml.sidecar.refusal import RefusedError
from traceml.sidecar.steady import SteadyClock
from traceml.sidecar.timeline import turned
from traceml.signals import NO_CONCERN_OF_A_SIDECAR, SENT_TO_JOBS, TO_STOP
from traceml.snapshot import Snapshot
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.left import left

if TYPE_CHECKING:
    from traceml.publish.otlp.exporting import Exporting

log = logging.getLogger(__name__)

_NOBODY_YET_SECONDS = 60.0  # a script whose launcher died may still be importing
_SAMPLE_SECONDS = 1.0  # at the least
_FLUSH_SECONDS = 5.0
_ASLEEP_SECONDS = 3.0  # a tick so late means that the sidecar itself was stopped


@dataclass(frozen=True, slots=True)
class Final:
    """The end of a run: what its summary says, and why it could not be written, if so."""

    snapshot: Snapshot
    problem: str

    @property
    def text(self) -> str:
        """The summary to be shown."""
        return summary_text(summarized(self.snapshot))


class Front(Protocol):
    """Whoever started the sidecar, and wants to hear of it."""

    def ready(self, endpoint: str) -> None:
        """Ranks can report there."""

    def finished(self, final: Final) -> None:
        """The run is over, and all is written that could be."""

    def lingers(self, seconds: float) -> None:
        """The last values are served for so long, or until they are read."""


class Sidecar:
    """One run on one node, from the first rank's hello to the last scrape."""

    def __init__(self, config: Config, listener: socket.socket, access: Access | None = None):
        self._config = config
        self._listener = listener
        self._access = access or Access()
        self._host = HostSampler()
        self._discovery = Discovery(config.sd_file)
        self._linger = Linger()
        self._latest: Snapshot | None = None
        self._is_announced = False
        self._has_launcher = False
        self._exporting: Exporting | None = None
        self._catalogue = CATALOGUE if config.rank_metrics else WITHOUT_RANKS
        self._exposition = Exposition(self._catalogue)
        self._web = Server(app(self._exposition, self._linger))

    async def serve(self, front: Front, control: asyncio.StreamReader | None = None) -> None:
        """Work until the run has ended and its last values were read.

        `control` is the launcher's voice. Without one the run ends by SIGTERM or SIGINT.
        """
        raise_limit()
        try:
            await self._serve(front, control)
        finally:
            self._web.should_exit = True  # or its thread would keep the process

    async def _serve(self, front: Front, control: asyncio.StreamReader | None) -> None:
        self._ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._has_launcher = control is not None
        self._started_at = time.time()
        collector = self._collector = self._recovered()
        self._handle_signals()
        folder, limit = self._config.directory / FOLDER, self._config.journal_max_bytes
        self._ledger = Ledger(collector, Journal(folder, limit, collector.run))
        ingest = Ingest(self._ledger, collector, self._access, self._picture)
        endpoint = Endpoint(ingest.new_server, self._access)
        reachable = endpoint.bind(self._config.endpoint)
        await self._ledger.open()
        keeper = self._start(self._ledger.keep())
        await self._ledger.tell(pb.Entry(started=self._started()))
        await endpoint.start()
        answering = self._start(asyncio.to_thread(self._web.answer, self._listener))
        parts = (self._watch(), self._sample(), self._export(), endpoint.keep_reachable())
        workers = [self._start(part) for part in parts]
        if control is not None:
            workers.append(self._start(self._listen(control)))
        self._reachable = reachable
        self._announce()
        log.info("run %s reports to %s", self._config.run.name, reachable)
        gc.freeze()  # a full collection of all that was imported would hold up a scrape
        front.ready(reachable)
        ending = await self._ending
        for worker in workers:
            worker.cancel()
        await self._take_last()
        await self._tell_turn(collector.snapshot(with_course=False))
        ended = pb.Ended(state=ending.state, exit_code=ending.exit_code)
        await self._ledger.tell(pb.Entry(ended=ended))
        await endpoint.stop()
        keeper.cancel()
        await self._ledger.close()
        final = self._picture()
        self._show(final)
        front.finished(Final(final, await self._keep(final)))
        log.info("run %s: %s", self._config.run.name, ending.state)
        await self._flush()
        patience = self._patience()
        if patience:
            front.lingers(patience)
            async with offered(self._listener.getsockname()[1], self._make_way):
                await self._linger.wait(patience)
        with suppress(OSError):
            await patiently(lambda: asyncio.to_thread(self._discovery.withdraw))
        self._web.should_exit = True  # lets the last scrape have its answer
        await answering

    def _recovered(self) -> Collector:
        """The run as it was when another sidecar left it, or a new one."""
        recovered = recover(self._config.directory / FOLDER, self._config.run)
        collector = recovered.collector
        assert collector is not None
        collector.clock = self._clock = SteadyClock(recovered.until)
        if recovered.until:
            log.info("went on after %d entries of the journal", recovered.entries)
        for problem in recovered.problems:
            collector.note(f"The journal could not be read whole: {problem}")
        return collector

    def _started(self) -> pb.Started:
        policy = json.dumps(self._config.policy)
        return pb.Started(restarts=self._config.restarts, policy=policy)

    async def _sample(self) -> None:
        """Look at the machine; on a thread of its own, which a driver in trouble may keep."""
        samples: asyncio.Queue[pb.Sampled] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def work() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody asks any more
                while True:
                    sample = self._host.look()
                    if sample is not None:
                        loop.call_soon_threadsafe(samples.put_nowait, sample)
                    time.sleep(max(self._config.interval_seconds, _SAMPLE_SECONDS))

        threading.Thread(target=work, name="host", daemon=True).start()
        while True:
            await self._ledger.tell(pb.Entry(sampled=await samples.get()))

    async def _watch(self) -> None:
        """Make a Snapshot each interval, and look who is missing."""
        slept = time.monotonic()
        while True:
            now = time.monotonic()
            late = now - slept - self._config.interval_seconds
            if late > _ASLEEP_SECONDS:
                log.warning("was stopped for %.1f s", late)
                self._collector.forgive(late)
            slept = now
            self._announce()
            with suppress(OSError):  # the next time, then
                await self._take_left()
            for rank in self._collector.overdue():
                log.info("the others went on without rank %d", rank)
                await self._ledger.tell(pb.Entry(excused=pb.Excused(rank=rank)))
            snapshot = self._picture(with_course=False)
            self._show(snapshot)
            await self._tell_turn(snapshot)
            await asyncio.sleep(self._config.interval_seconds)

    def _show(self, snapshot: Snapshot) -> None:
        """Let scrapers and exporters have it."""
        self._exposition.show(snapshot)
        self._latest = snapshot

    async def _tell_turn(self, snapshot: Snapshot) -> None:
        """Have it written down if the latest steps are now held back by something else."""
        diagnosed = turned(snapshot)
        if diagnosed is not None:
            await self._ledger.tell(pb.Entry(diagnosed=diagnosed))

    def _picture(self, *, with_course: bool = True) -> Snapshot:
        snapshot = self._collector.snapshot(with_course=with_course)
        snapshot = replace(snapshot, clock_shift_seconds=self._clock.shift_seconds())
        return snapshot if self._exporting is None else self._exporting.told(snapshot)

    async def _export(self) -> None:
        """Send it all through OTLP, if that is asked for; its libraries are loaded only then."""
        environment = otlp.for_exporters(os.environ, self._config.otlp_endpoint)
        settings = otlp.read(environment)
        for problem in settings.problems:
            log.warning("otlp: %s", problem)
            self._collector.note(problem)
        if not settings.is_on:
            return
        os.environ.clear()
        os.environ.update(environment)
        try:
            self._exporting = await asyncio.to_thread(self._exporter, settings)
        except Exception as error:  # theirs, of whatever kind: a setting that they refuse
            self._collector.note(f"Nothing is sent through OTLP: {error}")

    def _exporter(self, settings: otlp.Settings) -> "Exporting":
        from traceml.publish.otlp.exporting import Exporting

        run = self._config.run.name
        exporting = Exporting(
            settings, run, lambda: self._latest, self._started_at, self._catalogue
        )
        exporting.start()
        return exporting

    async def _flush(self) -> None:
        """The last values have so long to arrive; nobody waits for that but this process."""
        if self._exporting is not None:
            await asyncio.to_thread(self._exporting.finish, _FLUSH_SECONDS)

    async def _take_last(self) -> None:
        """Take what ranks have left at the end, after which nobody will."""
        try:
            await patiently(self._take_left)
        except OSError as error:
            log.warning("cannot take what ranks have left: %s", error)

    async def _take_left(self) -> None:
        """Take what ranks have left that ended while nobody answered."""
        since = self._collector.run.started_at + min(self._clock.shift_seconds(), 0.0)
        for file, entries in left(self._config.endpoint, since):
            for entry in entries:
                with suppress(RefusedError):
                    await self._ledger.tell(entry)
            log.info("took %s", file)
            file.unlink(missing_ok=True)

    async def _listen(self, control: asyncio.StreamReader) -> None:
        """Wait for the launcher's word; if it dies, for the ranks to be gone as well."""
        line = await control.readline()
        if line:
            self._end(Ending(**json.loads(line)))
            return
        log.warning("the launcher is gone")
        self._has_launcher = False
        patience = time.monotonic() + _NOBODY_YET_SECONDS
        while self._collector.is_anyone_reporting() or (
            not self._collector.was_anyone_there and time.monotonic() < patience
        ):
            await asyncio.sleep(0.5)
        self._end(Ending("interrupted", None))

    async def _keep(self, final: Snapshot) -> str:
        """Write what is kept of the run; returns what went wrong."""
        try:
            await patiently(lambda: asyncio.to_thread(self._write, final))
        except OSError as error:
            log.warning("cannot write what is kept of the run: %s", error)
            return str(error)
        return ""

    def _write(self, final: Snapshot) -> None:
        write_summary(final, self._config.directory)
        if self._config.textfile_dir is not None:
            write_textfile(final, self._config.textfile_dir, self._catalogue)

    def _patience(self) -> float:
        limit = self._config.linger_seconds
        return self._linger.patience(
            expected=self._config.sd_file is not None or limit is not None,
            limit=MAX_LINGER_SECONDS if limit is None else limit,
            now=time.monotonic(),
        )

    def _make_way(self) -> None:
        with suppress(OSError):
            self._discovery.withdraw()  # before the other run can announce itself there
        self._linger.leave()

    def _start(self, work: Any) -> "asyncio.Task[None]":
        """Start a part; one that fails ends the sidecar, which would serve what is no longer so."""
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._ending.done():
            self._ending.set_exception(error)

    def _handle_signals(self) -> None:
        """All processes of a job may be sent what is meant for the training."""
        loop = asyncio.get_running_loop()
        for number in NO_CONCERN_OF_A_SIDECAR:
            signal.signal(number, signal.SIG_IGN)
        for number in TO_STOP:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                loop.add_signal_handler(number, self._stop)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SENT_TO_JOBS)  # a launcher's are held

    def _stop(self) -> None:
        if self._ending.done():
            self._linger.leave()
        elif not self._has_launcher:  # a launcher decides itself when the run is over
            state = "completed" if self._collector.have_all_parted() else "interrupted"
            self._end(Ending(state, None))

    def _end(self, ending: Ending) -> None:
        if not self._ending.done():
            self._ending.set_result(ending)

    def _write_announcement(self, text: str) -> None:
        with opened(self._config.directory) as folder:
            write_in(folder, ANNOUNCEMENT, encoded(text))

    def _announce(self) -> None:
        """Say where the run is served, until that could be written."""
        if self._is_announced:
            return
        host, port = self._listener.getsockname()[:2]
        description = {
            "pid": os.getpid(),
            "run": self._config.run.name,
            "endpoint": self._reachable,
            "metrics": f"http://{address(host, port)}/metrics",
        }
        is_published = self._discovery.publish(host, port)
        with suppress(OSError):  # a full disk costs this file, not the run
            self._write_announcement(json.dumps(description, indent=2) + "\n")
            self._is_announced = is_published
