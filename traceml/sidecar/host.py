"""The machine beside the run, sampled with psutil."""

import psutil

from traceml.snapshot import Host


class HostSampler:
    """Utilisation is over the time between two samples, so the first has none."""

    def __init__(self) -> None:
        psutil.cpu_percent(interval=None)
        self._primed = False

    def sample(self) -> Host:
        """The host now."""
        percent = psutil.cpu_percent(interval=None)
        memory = psutil.virtual_memory()
        utilization = percent / 100 if self._primed else None
        self._primed = True
        return Host(
            cpu_utilization_ratio=utilization,
            memory_used_bytes=float(memory.used),
            memory_size_bytes=float(memory.total),
        )
