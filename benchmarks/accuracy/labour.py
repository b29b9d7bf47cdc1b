"""Work for so many seconds, of two kinds: asleep, or in matrix products counted beforehand."""

import time
from statistics import median

import torch
import torch.distributed as dist

from benchmarks.accuracy.schedule import SLEEP

_SIZE = 96  # of the matrices: a product takes some tens of microseconds
_SAMPLE = 100  # products to a timing
_TIMINGS = 9


class Labour:
    """Takes time. What is computed is a number of products, the same on every rank."""

    def __init__(self, kind: str) -> None:
        self._sleeps = kind == SLEEP
        self._left, self._right = torch.randn(_SIZE, _SIZE), torch.randn(_SIZE, _SIZE)
        self._product = torch.empty(_SIZE, _SIZE)
        self.seconds_together = self.seconds_alone = 0.0  # a product, with and without the others
        if not self._sleeps:
            self._calibrate()

    def take(self, seconds: float, *, alone: bool = False) -> None:
        """Work so long; `alone` if the other ranks have nothing to do meanwhile."""
        if seconds <= 0:
            return
        if self._sleeps:
            time.sleep(seconds)
            return
        each = self.seconds_alone if alone else self.seconds_together
        self._multiply(round(seconds / each))

    def _multiply(self, times: int) -> None:
        with torch.no_grad():
            for _ in range(times):
                torch.mm(self._left, self._right, out=self._product)

    def _calibrate(self) -> None:
        """More ranks than cores make a product slower, until all but one wait."""
        self._time()
        dist.barrier()
        together = self._time()
        dist.barrier()
        alone = self._time() if dist.get_rank() == 0 else 0.0
        told = torch.tensor([together, alone], dtype=torch.float64)
        dist.broadcast(told, src=0)
        self.seconds_together, self.seconds_alone = told.tolist()

    def _time(self) -> float:
        return median(self._time_once() for _ in range(_TIMINGS))

    def _time_once(self) -> float:
        begin = time.perf_counter()
        self._multiply(_SAMPLE)
        return (time.perf_counter() - begin) / _SAMPLE
