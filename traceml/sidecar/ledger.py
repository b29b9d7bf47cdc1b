"""Write first, then take, then answer: everything that is told goes through here.

One task does all of it, so entries are applied in the order in which they lie in
the journal, and a checkpoint holds exactly what was written before it. The disk's
own work is done on another thread: a slow disk delays answers, and nothing else.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple, TypeVar

from traceml.sidecar.checkpoint import capture, pack
from traceml.sidecar.collector import Collector, Reply
from traceml.sidecar.journal import Journal
from traceml.wire import telemetry_pb2 as pb

SYNC_SECONDS = 0.5

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class _Told(NamedTuple):
    entry: pb.Entry
    data: bytes
    reply: "asyncio.Future[Reply]"


class Ledger:
    """The way into the collector, through the journal."""

    def __init__(self, collector: Collector, journal: Journal) -> None:
        self._collector = collector
        self._journal = journal
        self._waiting: list[_Told] = []
        self._waiting_bytes = 0
        self._told = asyncio.Event()
        self._disk = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")
        self._sync_at = 0.0
        self._retry_at = 0.0

    async def tell(self, entry: pb.Entry) -> Reply:
        """Have it written and taken; raises what the collector raises."""
        entry.at = self._collector.clock()
        self._collector.check(entry)
        if entry.WhichOneof("what") == "push":
            self._collector.strip(entry.push)
        data = entry.SerializeToString()
        told = _Told(entry, data, asyncio.get_running_loop().create_future())
        self._waiting.append(told)
        self._waiting_bytes += len(data)
        self._told.set()
        return await told.reply

    def has_room(self, size: int) -> bool:
        """Whether so many bytes more may wait for the disk."""
        return self._waiting_bytes + size <= self._journal.group_bytes

    async def open(self) -> None:
        """Begin the journal with the state as it is."""
        await self._checkpoint()

    async def keep(self) -> None:
        """Work until cancelled."""
        while True:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._told.wait(), SYNC_SECONDS)
            self._told.clear()
            await self._take_all()
            await self._look_after_journal()

    async def close(self) -> None:
        """Bring to disk what was told."""
        await self._on_disk(self._journal.sync)
        await self._on_disk(self._journal.close)
        self._disk.shutdown(wait=False)

    async def _take_all(self) -> None:
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if not waiting:
            return
        written = await self._on_disk(lambda: self._journal.append([told.data for told in waiting]))
        if not written:
            self._collector.unjournaled += sum(told.entry.push.batch.records for told in waiting)
        for told in waiting:
            self._take(told)

    def _take(self, told: _Told) -> None:
        try:
            reply = self._collector.apply(told.entry)
        except Exception as error:
            if not told.reply.done():
                told.reply.set_exception(error)
        else:
            if not told.reply.done():  # who asked may have gone away
                told.reply.set_result(reply)

    async def _look_after_journal(self) -> None:
        now = time.monotonic()
        if self._journal.wants_checkpoint and now >= self._retry_at:
            await self._checkpoint()
            self._retry_at = now + SYNC_SECONDS if self._journal.problem else 0.0
        elif now >= self._sync_at:
            await self._on_disk(self._journal.sync)
            self._sync_at = now + SYNC_SECONDS
        self._report(self._journal.problem)

    def _report(self, problem: str) -> None:
        if problem and not self._collector.journal_problem:
            log.warning("the journal cannot be written: %s", problem)
        elif self._collector.journal_problem and not problem:
            log.info("the journal is written again")
        self._collector.journal_problem = problem

    async def _checkpoint(self) -> None:
        state = capture({"at": self._collector.clock(), "collector": self._collector.save()})
        await self._on_disk(lambda: self._journal.begin(pack(state)))

    async def _on_disk(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._disk, work)
