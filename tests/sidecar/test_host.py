import psutil
import pytest

from tests.descriptors import descriptors_left
from traceml.sidecar.gpu import GpuSampler
from traceml.sidecar.host import HostSampler
from traceml.wire import telemetry_pb2 as pb


@pytest.fixture
def sampler() -> HostSampler:
    return HostSampler(GpuSampler({"CUDA_VISIBLE_DEVICES": ""}))


def test_the_first_sample_has_no_utilisation_because_no_time_has_passed(
    sampler: HostSampler,
) -> None:
    assert not sampler.sample().HasField("cpu_utilization_ratio")


def test_later_samples_have_a_utilisation_between_none_and_all(sampler: HostSampler) -> None:
    sampler.sample()
    host = sampler.sample()
    assert host.HasField("cpu_utilization_ratio")
    assert 0 <= host.cpu_utilization_ratio <= 1


def test_the_utilisation_is_the_share_of_all_cpus(
    sampler: HostSampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "cpu_percent", lambda interval: 37.5)
    sampler.sample()
    assert sampler.sample().cpu_utilization_ratio == 0.375


def test_memory_is_what_the_host_has_and_uses(sampler: HostSampler) -> None:
    host = sampler.sample()
    assert host.memory_size_bytes == psutil.virtual_memory().total
    assert 0 < host.memory_used_bytes < host.memory_size_bytes


def test_the_gpus_and_their_failures_are_part_of_the_host() -> None:
    class Failing(GpuSampler):
        def sample(self) -> list[pb.Gpu]:
            self.failures += 1
            return [pb.Gpu(index=1, uuid="GPU-1")]

    host = HostSampler(Failing()).sample()
    assert [gpu.uuid for gpu in host.gpus] == ["GPU-1"]
    assert host.gpu_failures == 1


def test_a_host_without_gpus_has_none(sampler: HostSampler) -> None:
    host = sampler.sample()
    assert list(host.gpus) == []
    assert host.gpu_failures == 0


def test_what_cannot_be_read_for_want_of_a_descriptor_costs_one_sample(
    sampler: HostSampler, caplog: pytest.LogCaptureFixture
) -> None:
    assert sampler.look() is not None
    with descriptors_left(0):
        assert (sampler.look(), sampler.look()) == (None, None)
    host = sampler.look()
    assert host is not None
    assert host.HasField("cpu_utilization_ratio")
    assert len(caplog.messages) == 1
