"""Copies to the device are seen, and `Tensor.to` works as it does without us."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.rank.conftest import Traced
from tests.rank.uses_of_to import uses, uses_compiled
from traceml.rank import copies
from traceml.rank.copies import UNSEEN, hook_copies
from traceml.rank.events import COPY, COPY_END, Recorder
from traceml.rank.patches import Patches

# Programs that compile, side by side on a machine that has other things to do.
pytestmark = pytest.mark.timeout(500)


class OnDevice(Tensor):
    """Says that it is in the memory of a device, to everyone who looks."""

    is_cpu = False


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """Copies go here. They are made by somebody who has replaced `to` before us, on no device."""
    recorder, patches = Recorder(), Patches()
    patches.replace(Tensor, "to", lambda original: arriving)
    patches.replace(Tensor, "cuda", lambda original: arriving)
    hook_copies(recorder, patches)
    yield recorder
    patches.undo()
    assert recorder.faults == 0


def arriving(tensor: Tensor, /, *args: Any, **kwargs: Any) -> str:
    return "arrived"


def codes(recorder: Recorder) -> list[int]:
    return [code for code, _, _ in recorder.take()[0]]


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("cuda",), {}),
        (("cuda:1", torch.float16), {}),
        ((torch.device("xpu", 1),), {"non_blocking": True}),
        ((0,), {}),
        ((), {"device": "mps"}),
        ((), {"device": 1}),
        ((), {"device": torch.device("cuda"), "dtype": torch.float16}),
        ((torch.ones(1).as_subclass(OnDevice),), {}),
        ((), {"tensor": torch.ones(1).as_subclass(OnDevice)}),
    ],
)
def test_a_copy_to_a_device_is_recorded(
    recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    tensor: Any = torch.ones(2)
    assert tensor.to(*args, **kwargs) == "arrived"
    assert codes(recorder) == [COPY, COPY_END]


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {}),
        ((None,), {}),
        ((torch.float16,), {}),
        ((None, torch.float16), {}),
        (("cpu",), {}),
        (("cpu:0",), {}),
        ((torch.device("cpu"), torch.float16), {}),
        ((torch.device("cpu", 0),), {}),
        (("meta",), {}),
        ((torch.device("meta"),), {}),
        ((torch.ones(1),), {}),
        ((torch.ones(1, device="meta"),), {}),
        ((), {"device": "cpu"}),
        ((), {"dtype": torch.float16}),
        ((), {"tensor": torch.ones(1)}),
        ((3.5,), {}),
    ],
)
def test_what_stays_on_the_host_is_not_and_no_clock_is_read(
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    monkeypatch.delattr(copies, "clock")
    tensor: Any = torch.ones(2)
    assert tensor.to(*args, **kwargs) == "arrived"
    assert codes(recorder) == []


@pytest.mark.parametrize(
    "tensor", [torch.ones(1).as_subclass(OnDevice), torch.ones(1, device="meta")]
)
def test_what_does_not_come_from_the_host_is_not(recorder: Recorder, tensor: Tensor) -> None:
    tensor.to("cuda")
    tensor.cuda()
    assert codes(recorder) == []


def test_cuda_is_a_copy_whatever_its_arguments(recorder: Recorder) -> None:
    torch.ones(1).cuda()
    torch.ones(1).cuda(non_blocking=True)
    assert codes(recorder) == [COPY, COPY_END] * 2


def test_a_copy_that_fails_has_an_end_and_its_own_error(accelerated: None, traced: Traced) -> None:
    with pytest.raises(RuntimeError, match="nosuchdevice"):
        torch.ones(1).to("nosuchdevice")
    assert codes(traced.recorder)[-2:] == [COPY, COPY_END]


def test_h2d_is_the_time_of_copies_and_absent_where_there_were_none(
    accelerated: None, traced: Traced
) -> None:
    torch.ones(1).to(torch.float64)
    traced.recorder.finish()
    with pytest.raises(RuntimeError):
        torch.ones(1).to("nosuchdevice")
    traced.recorder.finish()
    none, one = (step["h2d_ns"] for step in traced.records())
    assert none != none
    assert one > 0


def test_without_an_accelerator_tensors_are_left_alone(traced: Traced) -> None:
    if torch.version.cuda is None:
        assert "to" not in Tensor.__dict__


def test_what_somebody_puts_over_ours_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, patches = Recorder(), Patches()
    hook_copies(recorder, patches)
    monkeypatch.setattr(Tensor, "to", arriving)
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1))
    patches.undo()
    assert Tensor.__dict__["to"] is arriving
    monkeypatch.undo()
    del Tensor.to


def test_copies_go_unmeasured_and_that_is_said_where_the_compiler_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(torch._dynamo.symbolic_convert, "InstructionTranslator")
    recorder, patches = Recorder(), Patches()
    hook_copies(recorder, patches)
    assert list(recorder.notes) == [UNSEEN]
    assert "to" not in Tensor.__dict__
    patches.undo()


def test_an_error_of_ours_is_counted_and_the_copy_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: Any) -> bool:
        raise ValueError

    monkeypatch.setitem(copies.METHODS, "to", fails)
    recorder, patches = Recorder(), Patches()
    hook_copies(recorder, patches)
    assert torch.ones(1).to(torch.float64).dtype == torch.float64
    assert recorder.faults == 1
    patches.undo()


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Any]:
    """How each use ended: bare, and traced from before or from after it was first made."""
    command = [sys.executable, "-m", "tests.rank.uses_of_to"]
    started = {
        mode: subprocess.Popen(
            [*command, mode], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for mode in ("bare", "before", "after")
    }
    found = {}
    for mode, process in started.items():
        stdout, stderr = process.communicate()
        assert process.returncode == 0, stderr
        found[mode] = json.loads(stdout)
    return found


@pytest.mark.parametrize("mode", ["before", "after"])
def test_our_methods_were_there_to_the_end(outcomes: dict[str, Any], mode: str) -> None:
    assert outcomes["bare"]["held"] == "builtins"
    assert outcomes[mode]["held"] == "traceml.rank.copies"
    assert (outcomes[mode]["faults"], outcomes[mode]["notes"]) == (0, [])


@pytest.mark.parametrize("mode", ["before", "after"])
@pytest.mark.parametrize("use", [*uses(), *uses_compiled()])
def test_a_use_ends_as_without_us(outcomes: dict[str, Any], use: str, mode: str) -> None:
    for bare, traced in zip(outcomes["bare"]["rounds"], outcomes[mode]["rounds"], strict=True):
        assert traced.get(use) == bare.get(use)


def test_what_is_compiled_once_is_not_compiled_again(outcomes: dict[str, Any]) -> None:
    first, again, _, after_reset = outcomes["before"]["rounds"]
    plain = "compiled: method, Forwarding"
    assert [of[plain] for of in (first, again, after_reset)] == [
        f"('Forwarding', 'torch.float64', {graphs})" for graphs in (1, 0, 1)
    ]
