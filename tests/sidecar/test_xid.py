"""Xids, told by NVML's events through the real binding."""

import logging

import pytest

from tests.builders import Clock
from tests.nvml import stub
from tests.nvml.stub import UUIDS, Machine
from traceml.sidecar.gpu import RETRY_SECONDS, GpuSampler

FIRST, SECOND = UUIDS


def xids(sampler: GpuSampler) -> list[int]:
    return [gpu.xids for gpu in sampler.sample()]


def test_an_xid_is_told_once_and_of_its_own_gpu(sampler: GpuSampler, machine: Machine) -> None:
    assert xids(sampler) == [0, 0]
    machine.answer(1, xids="31,43")
    assert xids(sampler) == [0, 2]
    assert xids(sampler) == [0, 0]
    machine.answer(1, xids="31,43,79")
    assert xids(sampler) == [0, 1]


def test_xids_from_before_the_run_are_none_of_it(sampler: GpuSampler, machine: Machine) -> None:
    machine.answer(0, xids="13")
    assert xids(sampler) == [0, 0]


def test_the_code_of_an_xid_is_logged(
    sampler: GpuSampler, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    sampler.sample()
    machine.answer(0, xids="94")
    with caplog.at_level(logging.WARNING):
        sampler.sample()
    assert caplog.messages == [f"{FIRST} reported Xid 94"]


def test_the_xid_of_a_gpu_that_is_lost_by_it_is_told_when_it_is_back(
    sampler: GpuSampler, machine: Machine, clock: Clock
) -> None:
    sampler.sample()
    machine.answer(0, xids="79")
    machine.state("0", stub.GPU_IS_LOST)
    assert xids(sampler) == [0]
    machine.state("0", 0)
    clock.advance(RETRY_SECONDS)
    assert xids(sampler) == [1, 0]


def test_one_gpu_that_does_not_tell_its_xids_does_not_keep_the_other_from_it(
    sampler: GpuSampler, machine: Machine
) -> None:
    machine.answer(0, xids=stub.UNANSWERED[0])
    first, second = sampler.sample()
    assert (first.HasField("xids"), second.HasField("xids")) == (False, True)
    assert sampler.failures == 0


def test_xids_are_still_watched_after_gpus_were_lost_many_times(
    sampler: GpuSampler, machine: Machine, clock: Clock
) -> None:
    sampler.sample()
    for _ in range(50):  # far more than there may be subscriptions at a time
        machine.state("0", stub.GPU_IS_LOST)
        sampler.sample()
        machine.state("0", 0)
        clock.advance(RETRY_SECONDS)
        sampler.sample()
    machine.answer(0, xids="45")
    machine.answer(1, xids="45")
    assert xids(sampler) == [1, 1]
