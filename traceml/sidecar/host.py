"""The machine beside the run: its CPUs and memory by psutil, its GPUs by NVML."""

import psutil

from traceml.sidecar.gpu import GpuSampler
from traceml.wire import telemetry_pb2 as pb


class HostSampler:
    """Utilisation is over the time between two samples, so the first has none."""

    def __init__(self, gpus: GpuSampler | None = None) -> None:
        psutil.cpu_percent(interval=None)
        self._primed = False
        self._gpus = gpus or GpuSampler()

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
