from collections.abc import Mapping

import pytest

from tests.builders import GIB, gpu_sample, host_sample
from traceml.sidecar.checkpoint import capture, pack, unpack
from traceml.sidecar.hostbook import RECENT_SAMPLES, HostBook
from traceml.wire import telemetry_pb2 as pb


def book_of(*samples: pb.Sampled) -> HostBook:
    book = HostBook()
    for sample in samples:
        book.add(sample)
    return book


def busy(cpu: float, used: float = 8 * GIB) -> pb.Sampled:
    return pb.Sampled(cpu_utilization_ratio=cpu, memory_used_bytes=used, memory_size_bytes=32 * GIB)


def with_gpus(*gpus: pb.Gpu) -> pb.Sampled:
    sample = host_sample()
    sample.gpus.extend(gpus)
    return sample


def test_a_host_that_nobody_looked_at_is_absent() -> None:
    book = HostBook()
    assert book.host() is None
    assert (book.window().samples, book.whole().samples) == (0, 0)
    assert book.whole().cpu_utilization_ratio is None


def test_the_host_is_that_of_the_last_sample() -> None:
    sample = with_gpus(gpu_sample(1))
    sample.gpu_failures = 2
    host = book_of(busy(0.9), sample).host()
    assert host is not None
    assert (host.cpu_utilization_ratio, host.memory_used_bytes) == (0.25, 8 * GIB)
    assert (host.memory_size_bytes, host.gpu_failures) == (32 * GIB, 2)
    assert [(gpu.index, gpu.uuid, gpu.power_watts) for gpu in host.gpus] == [(1, "GPU-1", 350.0)]


def test_the_cpu_is_a_mean_and_memory_the_highest() -> None:
    use = book_of(busy(0.2, 16 * GIB), busy(0.4, 8 * GIB)).whole()
    assert use.samples == 2
    assert use.cpu_utilization_ratio == pytest.approx(0.3)
    assert use.memory_ratio == 0.5


def test_what_a_sample_lacks_is_left_out_of_the_mean() -> None:
    bare = pb.Sampled(memory_size_bytes=32 * GIB)
    use = book_of(bare, busy(0.4), bare).whole()
    assert (use.samples, use.cpu_utilization_ratio, use.memory_ratio) == (3, 0.4, 0.25)
    host = book_of(bare).host()
    assert host is not None
    assert (host.cpu_utilization_ratio, host.memory_used_bytes) == (None, None)


def test_lately_is_the_last_thirty_samples() -> None:
    book = book_of(*[busy(1.0, 30 * GIB)] * 5, *[busy(0.5)] * RECENT_SAMPLES)
    window, whole = book.window(), book.whole()
    assert RECENT_SAMPLES == 30
    assert (window.samples, window.cpu_utilization_ratio) == (30, 0.5)
    assert (window.memory_ratio, whole.memory_ratio) == (0.25, 30 / 32)
    assert whole.samples == 35
    assert whole.cpu_utilization_ratio == pytest.approx(20 / 35)


def test_a_gpu_is_told_by_means_and_highest_values() -> None:
    hot, cool = gpu_sample(), gpu_sample()
    hot.temperature_celsius, hot.memory_used_bytes, hot.power_watts = 88.0, 40 * GIB, 700.0
    cool.utilization_ratio = 0.25
    (use,) = book_of(with_gpus(hot), with_gpus(cool)).whole().gpus
    assert (use.index, use.uuid) == (0, "GPU-0")
    assert (use.utilization_ratio, use.power_ratio) == (0.5, 0.75)
    assert (use.temperature_celsius, use.memory_ratio) == (88.0, 0.5)


def test_a_gpu_that_is_held_back_is_told_with_the_reasons() -> None:
    samples = [gpu_sample() for _ in range(4)]
    samples[1].throttled.extend(["thermal", "power"])
    samples[2].throttled.append("power")
    (use,) = book_of(*(with_gpus(sample) for sample in samples)).whole().gpus
    assert (use.throttled_ratio, use.throttled) == (0.5, ("thermal", "power"))


def test_a_gpu_that_only_reaches_its_power_cap_is_throttled_but_not_slowed() -> None:
    samples = [gpu_sample() for _ in range(4)]
    for sample in samples:
        sample.throttled.append("sw_power_cap")
    samples[0].throttled.append("hw_thermal_slowdown")
    (use,) = book_of(*(with_gpus(sample) for sample in samples)).whole().gpus
    assert (use.throttled_ratio, use.slowed_ratio) == (1.0, 0.25)
    assert use.throttled == ("sw_power_cap", "hw_thermal_slowdown")


def test_clock_and_power_of_a_gpu_are_means() -> None:
    fast, slow = gpu_sample(), gpu_sample()
    slow.sm_clock_hertz, slow.power_watts = 1.1e9, 250.0
    (use,) = book_of(with_gpus(fast), with_gpus(slow)).whole().gpus
    assert (use.sm_clock_hertz, use.sm_clock_max_hertz) == (1.3e9, 2.0e9)
    assert use.power_watts == 300.0


def test_the_clock_of_a_gpu_without_work_says_nothing() -> None:
    idle = gpu_sample()
    idle.utilization_ratio, idle.sm_clock_hertz = 0.0, 0.2e9
    (use,) = book_of(with_gpus(idle), with_gpus(gpu_sample())).whole().gpus
    assert use.sm_clock_hertz == 1.5e9
    (use,) = book_of(with_gpus(idle)).whole().gpus
    assert use.sm_clock_hertz is None


def failing(**counts: int) -> pb.Sampled:
    gpu = gpu_sample()
    for name, count in counts.items():
        setattr(gpu, name, count)
    return with_gpus(gpu)


def errors(book: HostBook) -> Mapping[str, int]:
    host = book.host()
    assert host is not None
    assert book.whole().gpus[0].errors == host.gpus[0].errors
    return host.gpus[0].errors


def test_errors_from_before_the_run_are_not_counted() -> None:
    book = book_of(failing(ecc_corrected=40, ecc_uncorrected=2))
    assert errors(book) == {"ecc_corrected": 0, "ecc_uncorrected": 0, "xid": 0}
    book.add(failing(ecc_corrected=43, ecc_uncorrected=2))
    assert errors(book) == {"ecc_corrected": 3, "ecc_uncorrected": 0, "xid": 0}


def test_errors_go_on_when_the_driver_counts_them_from_0() -> None:
    book = book_of(*(failing(ecc_corrected=count) for count in (40, 45, 2, 3)))
    assert errors(book)["ecc_corrected"] == 8


def test_xids_add_up() -> None:
    assert errors(book_of(*(failing(xids=count) for count in (0, 2, 0, 1))))["xid"] == 3


def test_errors_that_a_gpu_does_not_tell_are_absent_and_not_0() -> None:
    bare = with_gpus(pb.Gpu(index=0, uuid="GPU-0", ecc_corrected=4))
    assert errors(book_of(bare)) == {"ecc_corrected": 0}


def test_errors_long_ago_are_of_the_run_and_not_of_lately() -> None:
    book = book_of(failing(), failing(xids=1), *[failing()] * RECENT_SAMPLES)
    assert errors(book)["xid"] == 1
    assert book.window().gpus[0].errors["xid"] == 0


def test_a_gpu_that_comes_and_goes_is_judged_by_its_own_samples() -> None:
    throttled = gpu_sample(1)
    throttled.throttled.append("thermal")
    book = book_of(with_gpus(gpu_sample(0)), with_gpus(throttled, gpu_sample(0)), with_gpus())
    first, second = book.whole().gpus
    assert [first.index, second.index] == [0, 1]
    assert (first.throttled_ratio, second.throttled_ratio) == (0.0, 1.0)
    host = book.host()
    assert host is not None
    assert host.gpus == ()


def test_a_gpu_that_is_gone_leaves_the_window_and_stays_in_the_run() -> None:
    book = book_of(with_gpus(gpu_sample()), *[with_gpus()] * RECENT_SAMPLES)
    assert book.window().gpus == ()
    assert [gpu.uuid for gpu in book.whole().gpus] == ["GPU-0"]


def test_of_a_gpu_that_tells_nothing_nothing_is_said() -> None:
    (use,) = book_of(with_gpus(pb.Gpu(index=3, uuid="GPU-3"))).whole().gpus
    assert (use.utilization_ratio, use.memory_ratio, use.power_ratio) == (None, None, None)
    assert (use.temperature_celsius, use.throttled_ratio) == (None, 0.0)
    assert (use.sm_clock_hertz, use.sm_clock_max_hertz, use.power_watts) == (None, None, None)
    assert use.errors == {}


def test_a_power_without_a_limit_is_no_ratio() -> None:
    gpu = gpu_sample()
    gpu.ClearField("power_limit_watts")
    (use,) = book_of(with_gpus(gpu)).whole().gpus
    assert use.power_ratio is None


def test_the_book_goes_on_after_a_checkpoint() -> None:
    throttled = gpu_sample()
    throttled.throttled.append("thermal")
    samples = [busy(0.1), with_gpus(throttled), failing(ecc_corrected=9, xids=2)]
    samples.append(with_gpus(gpu_sample(), gpu_sample(1)))
    book = book_of(*samples)
    restored = unpack(pack(capture(book)))
    for each in (book, restored):
        each.add(failing(ecc_corrected=10))
        each.add(with_gpus(gpu_sample(1)))
    assert restored.host() == book.host()
    assert restored.window() == book.window()
    assert restored.whole() == book.whole()


def test_failures_go_on_when_another_sidecar_counts_them_from_0() -> None:
    book = HostBook()
    for failures in (0, 2, 2, 0, 1):
        book.add(pb.Sampled(memory_size_bytes=1.0, gpu_failures=failures))
    host = book.host()
    assert host is not None
    assert host.gpu_failures == 3
