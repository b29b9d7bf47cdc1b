"""The machine beside the run: its CPUs and memory by psutil, its GPUs by NVML."""

import logging

import psutil

from traceml.sidecar.gpu import GpuSampler
from traceml.wire import telemetry_pb2 as pb

log = logging.getLogger(__name__)


class HostSampler:
    """Utilisation is over the time between two samples, so the first has none."""

    def __init__(self, gpus: GpuSampler | None = None) -> None:
        self._primed = False
        self._gpus = gpus or GpuSampler()
        self._is_failing = False

    def look(self) -> pb.Sampled | None:
        """A sample, or None where it can't be had now, as without a descriptor to read it by."""
        try:
            sampled = self.sample()
        except (OSError, ImportError, psutil.Error) as error:
            if not self._is_failing:
                log.warning("cannot look at the host: %s", error)
            self._is_failing = True
            return None
        self._is_failing = False
        return sampled

    def sample(self) -> pb.Sampled:
        """The host now. As slow as the GPU driver's answer, which nothing bounds."""
        percent = psutil.cpu_percent(interval=None)
        memory = psutil.virtual_memory()
        utilization = percent / 100 if self._primed else None
        self._primed = True
        return pb.Sampled(
            cpu_utilization_ratio=utilization,
            memory_used_bytes=memory.used,
            memory_size_bytes=memory.total,
            gpus=self._gpus.sample(),
            gpu_failures=self._gpus.failures,
        )
