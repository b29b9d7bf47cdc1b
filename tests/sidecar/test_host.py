import psutil
import pytest

from traceml.sidecar.host import HostSampler


def test_the_first_sample_has_no_utilisation_because_no_time_has_passed() -> None:
    assert HostSampler().sample().cpu_utilization_ratio is None


def test_later_samples_have_a_utilisation_between_none_and_all() -> None:
    sampler = HostSampler()
    sampler.sample()
    ratio = sampler.sample().cpu_utilization_ratio
    assert ratio is not None
    assert 0 <= ratio <= 1


def test_the_utilisation_is_the_share_of_all_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "cpu_percent", lambda interval: 37.5)
    sampler = HostSampler()
    sampler.sample()
    assert sampler.sample().cpu_utilization_ratio == 0.375


def test_memory_is_what_the_host_has_and_uses() -> None:
    host = HostSampler().sample()
    assert host.memory_size_bytes == psutil.virtual_memory().total
    assert 0 < (host.memory_used_bytes or 0) < host.memory_size_bytes
