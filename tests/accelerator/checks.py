"""What the fake accelerator promises: each check runs in a process of its own, forked from
`python -m tests.accelerator.checks`, which prints what failed by name.
"""

import json
import multiprocessing
import os
import tempfile
import time
import traceback
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tests.accelerator.backend import COMM, NAME, register


def many_short_kernels_add_up(fake: Any) -> None:
    for _ in range(200):
        fake.work(0.5, "short")
    fake.drain()
    kernels = fake.log()
    busy_from = kernels[-1].queued_ns  # by then the CPU was ahead
    late = [kernel for kernel in kernels if kernel.begin_ns >= busy_from]
    assert all(kernel.end_ns - kernel.begin_ns == 500_000 for kernel in kernels)
    assert all(a.end_ns == b.begin_ns for a, b in pairwise(late))


def streams_run_at_once_and_wait_for_what_is_left(fake: Any) -> None:
    side = fake.Stream()
    with fake.stream(side):
        fake.work(60, "side")
    fake.work(20, "main")
    fake.current_stream().wait_stream(side)
    fake.work(5, "last")
    fake.drain()
    by_label = {entry.label or entry.kind: entry for entry in fake.log()}
    assert by_label["side"].stream == by_label["wait"].awaited == side.stream_id
    assert by_label["wait"].begin_ns == by_label["main"].end_ns
    assert by_label["wait"].end_ns == by_label["side"].end_ns == by_label["last"].begin_ns


def events_pass_when_the_device_comes_to_them(fake: Any) -> None:
    begin, end = fake.Event(enable_timing=True), fake.Event(enable_timing=True)
    fake.work(1, "before")
    begin.record()
    fake.work(200, "between")
    end.record()
    assert not end.query()
    assert (fake.recorded(), fake.queried()) == (2, 1)
    end.synchronize()
    assert begin.elapsed_time(end) == 200


def only_calls_that_wait_are_counted_as_waiting(fake: Any) -> None:
    tensor = torch.ones(3).to(NAME)
    (tensor * 2).sum().to("cpu", non_blocking=True)
    assert fake.synchronisations() == 0
    event = fake.current_stream().record_event()
    waiting: list[Callable[[], object]] = [
        tensor.sum().item, tensor.cpu, event.synchronize, fake.synchronize,
        fake.current_stream().synchronize, lambda: torch.equal(tensor, tensor),
    ]  # fmt: skip
    for number, wait in enumerate(waiting, 1):
        fake.work(1, "")
        wait()
        assert fake.synchronisations() == number, wait
    fake.set_copies(0.0, True)
    torch.ones(3).to(NAME, non_blocking=True)
    assert fake.synchronisations() == len(waiting)
    torch.ones(3).to(NAME)
    assert fake.synchronisations() == len(waiting) + 1


def a_value_is_known_when_the_device_is_there(fake: Any) -> None:
    tensor = torch.ones(3).to(NAME)
    begin = time.monotonic()
    fake.work(100, "")
    assert tensor.sum().item() == 3
    assert time.monotonic() - begin >= 0.1


def copies_take_their_time_on_the_current_stream(fake: Any) -> None:
    fake.set_copies(7.0, False)
    side = fake.Stream()
    with fake.stream(side):
        torch.ones(3).to(NAME)
    torch.ones(3).pin_memory().to(NAME, non_blocking=True)
    fake.drain()
    copies = [(entry.stream, entry.end_ns - entry.begin_ns) for entry in fake.log()]
    assert sorted(copies) == [(0, 7_000_000), (side.stream_id, 7_000_000)]


def synchronous_collectives_run_where_they_are_said_to(fake: Any) -> None:
    dist.init_process_group(COMM, store=dist.HashStore(), rank=0, world_size=2)
    tensor = torch.ones(2).to(NAME)
    fake.set_collectives(4.0, True)
    assert dist.all_reduce(tensor) is None
    assert dist.all_reduce(tensor, async_op=True).wait()
    fake.set_collectives(4.0, False)
    dist.all_reduce(tensor)
    fake.drain()
    assert tensor.tolist() == [8, 8]
    streams = [entry.stream for entry in fake.log() if entry.kind == "collective"]
    assert streams[0] == 0
    assert streams[1] == streams[2] != 0
    waits = [entry for entry in fake.log() if (entry.stream, entry.kind) == (0, "wait")]
    assert [wait.awaited for wait in waits] == streams[1:]


def collectives_give_what_equal_ranks_would(fake: Any) -> None:
    dist.init_process_group(COMM, store=dist.HashStore(), rank=1, world_size=2)
    own, both = torch.tensor([1.0, 2.0]).to(NAME), torch.zeros(4).to(NAME)
    dist.all_gather_into_tensor(both, own)
    assert both.tolist() == [1, 2, 1, 2]
    dist.reduce_scatter_tensor(own, torch.tensor([1.0, 2.0, 3.0, 4.0]).to(NAME))
    assert own.tolist() == [6, 8]
    dist.all_to_all_single(both, torch.tensor([1.0, 2.0, 3.0, 4.0]).to(NAME))
    assert both.tolist() == [3, 4, 3, 4]
    before = fake.synchronisations()
    dist.barrier()
    assert fake.synchronisations() == before + 1


def synchronised_batch_norm_is_batch_norm(fake: Any) -> None:
    dist.init_process_group(COMM, store=dist.HashStore(), rank=0, world_size=2)
    inputs, weights = torch.randn(6, 3), torch.randn(6, 3)
    results = []
    for norm, device in ((torch.nn.BatchNorm1d(3), "cpu"), (torch.nn.SyncBatchNorm(3), NAME)):
        given = inputs.clone().to(device).requires_grad_()
        outputs = norm.to(device)(given)
        (outputs * weights.to(device)).sum().backward()
        results.append((outputs.detach().cpu(), given.grad.cpu()))
    for plain, synchronised in zip(*results, strict=True):
        torch.testing.assert_close(plain, synchronised)


def memory_is_counted_as_cuda_counts(fake: Any) -> None:
    kept = torch.empty(3 << 20, dtype=torch.uint8, device=NAME)
    del kept
    small = torch.empty(100, dtype=torch.uint8, device=NAME)
    allocated = fake.memory_stats_as_nested_dict(0)["allocated_bytes"]
    assert allocated["all"]["current"] == allocated["small_pool"]["peak"] == 512
    assert allocated["large_pool"] == {"current": 0, "peak": 3 << 20, "allocated": 3 << 20,
                                       "freed": 3 << 20}  # fmt: skip
    fake.reset_peak_memory_stats()
    flat = fake.memory_stats(0)
    assert flat["allocated_bytes.all.peak"] == 512
    assert flat["reserved_bytes.all.current"] == 6 << 20  # three segments
    fake.set_allocation_retries(3)
    fake.set_total_memory(1 << 20)
    assert fake.get_device_properties(0).total_memory == 1 << 20
    try:
        torch.empty(2 << 20, dtype=torch.uint8, device=NAME)
    except torch.OutOfMemoryError:
        flat = fake.memory_stats(0)
        assert (flat["num_alloc_retries"], flat["num_ooms"], small.numel()) == (4, 1, 100)
    else:
        raise AssertionError("it had no limit")


def it_can_be_said_to_capture(fake: Any) -> None:
    assert not fake.is_current_stream_capturing()
    fake.set_capturing(True)
    assert fake.is_current_stream_capturing()


def a_child_knows_that_it_cannot_use_it(fake: Any) -> None:
    fake.work(1, "")
    child = os.fork()
    if not child:
        os._exit(0 if fake._is_in_bad_fork() else 1)
    assert os.waitpid(child, 0)[1] == 0


CHECKS: tuple[Callable[[Any], None], ...] = (
    many_short_kernels_add_up,
    streams_run_at_once_and_wait_for_what_is_left,
    events_pass_when_the_device_comes_to_them,
    only_calls_that_wait_are_counted_as_waiting,
    a_value_is_known_when_the_device_is_there,
    copies_take_their_time_on_the_current_stream,
    synchronous_collectives_run_where_they_are_said_to,
    collectives_give_what_equal_ranks_would,
    synchronised_batch_norm_is_batch_norm,
    memory_is_counted_as_cuda_counts,
    it_can_be_said_to_capture,
    a_child_knows_that_it_cannot_use_it,
)


def _run(check: Callable[[Any], None], file: Path) -> None:
    try:
        check(register())
    except BaseException:
        file.write_text(traceback.format_exc())
    else:
        file.write_text("")


def main() -> None:
    failures = {}
    with tempfile.TemporaryDirectory() as folder:
        for check in CHECKS:
            file = Path(folder) / check.__name__
            process = multiprocessing.get_context("fork").Process(target=_run, args=(check, file))
            process.start()
            process.join()
            told = file.exists()
            failures[check.__name__] = file.read_text() if told else f"exit {process.exitcode}"
    print(json.dumps(failures))


if __name__ == "__main__":
    main()
