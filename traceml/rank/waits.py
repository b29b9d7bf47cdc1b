"""Where a training waits for other ranks: time in which none of its own work is done.

On a CPU whoever waits for a collective is blocked. On a device nobody is: a stream waits, and
only if that is the one the training computes on does it cost time. There are three ways to
make it wait: a collective is queued on that very stream, what `wait` is called of is another
stream's work, or the stream itself is told to wait by code of torch.distributed, as FSDP does.
"""

import functools
import sys
from collections.abc import Callable, Iterator
from threading import get_ident
from time import perf_counter_ns as clock
from typing import Any

import torch
from torch._guards import TracingContext

from traceml.rank.events import COPY, COPY_END, UNSEEN, WAIT, WAIT_END, Recorder
from traceml.rank.patches import Patches

Make = Callable[[Any], Any]

COMPILED = (
    "Collectives run inside compiled code, where it can't be seen how long ranks wait for each "
    "other: there is no figure for collective_wait, and no rank's own work is told from it."
)
SHARDED = (  # until the first of its waits is seen
    "How this torch's FSDP waits for its collectives can't be seen: there is no figure for "
    "collective_wait, and no rank's own work is told from it."
)

_COLLECTIVES = (
    "allreduce", "allgather", "_allgather", "all_gather", "alltoall", "all_to_all", "barrier",
    "broadcast", "gather", "reduce", "_reduce", "scatter",
)  # fmt: skip


def hook_waits(recorder: Recorder, patches: Patches) -> None:
    """Time what waits for a collective, as all devices do."""
    if torch.distributed.is_available():
        patches.replace(torch._C._distributed_c10d.Work, "wait", _waiting(recorder))
        patches.replace(torch.distributed, "_broadcast_coalesced", _waiting(recorder))


def hook_functional_waits(collectives: Any, recorder: Recorder, patches: Patches) -> None:
    """Time the waits of this module, `torch.distributed._functional_collectives`."""
    patches.replace(collectives, "wait_tensor", _waiting_for_tensor(recorder))


def hook_device_waits(module: Any, recorder: Recorder, patches: Patches) -> None:
    """Time what makes a stream of this kind of device wait (`torch.cuda`, say)."""
    if torch.distributed.is_available():
        group = torch._C._distributed_c10d.ProcessGroup
        for name in _collectives_of(group):
            patches.replace(group, name, _collective(recorder))
    for name in ("wait_event", "wait_stream"):
        if name in getattr(getattr(module, "Stream", None), "__dict__", ()):
            patches.replace(module.Stream, name, _stream_waiting(recorder))


def _collectives_of(group: Any) -> Iterator[str]:
    """Their names change from one torch to the next."""
    for name in dir(group):
        if name.startswith(_COLLECTIVES) and callable(getattr(group, name)):
            yield name


def _waiting(recorder: Recorder) -> Make:
    """Write down when a function is called that waits, and when it returns."""
    append = recorder.append
    is_compiling = torch.compiler.is_dynamo_compiling

    def make(original: Any) -> Any:
        @functools.wraps(original)
        def waiting(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return original(*args, **kwargs)
            device = recorder.device
            if device is None:
                thread = get_ident()
            elif device.is_exposed():
                thread = recorder.thread
            else:
                return original(*args, **kwargs)
            append((WAIT, clock(), thread))
            try:
                return original(*args, **kwargs)
            finally:
                append((WAIT_END, clock(), thread))

        return waiting

    return make


def _waiting_for_tensor(recorder: Recorder) -> Make:
    is_compiling = torch.compiler.is_dynamo_compiling
    wait = _waiting(recorder)

    def tell() -> None:
        """Called by dynamo while it compiles, not by what it makes."""
        tell_unseen(recorder, COMPILED)

    tell._dynamo_marked_constant = True  # type: ignore[attr-defined]

    def make(original: Any) -> Any:
        timed = wait(original)

        @functools.wraps(original)
        def wait_tensor(tensor: Any) -> Any:
            if is_compiling() or TracingContext.try_get() is not None:
                tell()
                return original(tensor)
            return timed(tensor)

        return wait_tensor

    return make


def _collective(recorder: Recorder) -> Make:
    """A collective that nobody need wait for afterwards was queued on the current stream."""
    append = recorder.append
    is_compiling = torch.compiler.is_dynamo_compiling

    def make(original: Any) -> Any:
        @functools.wraps(original)
        def collective(*args: Any, **kwargs: Any) -> Any:
            device = recorder.device
            if device is None or is_compiling() or not _is_synchronous(args, kwargs):
                return original(*args, **kwargs)
            if not device.is_exposed():
                return original(*args, **kwargs)
            since, before = clock(), device.stamp()
            work = original(*args, **kwargs)
            if work is None:
                device.append((WAIT, since, recorder.thread), before)
                append((WAIT_END, clock(), recorder.thread))
            else:
                device.release(before)
            return work

        return collective

    return make


def _is_synchronous(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether its options say so; torch before 2.8 has no such option, nor such collectives."""
    options = kwargs.get("opts", args[-1] if args else None)
    return getattr(options, "asyncOp", None) is False


def _stream_waiting(recorder: Recorder) -> Make:
    """The stream that the training computes on waits for what another does.

    If torch.distributed says so, for a collective. Else it may be for copies that were seen
    on the other one: a loader that copies ahead.
    """
    append = recorder.append
    is_compiling = torch.compiler.is_dynamo_compiling

    def make(original: Any) -> Any:
        @functools.wraps(original)
        def waiting(stream: Any, /, *args: Any, **kwargs: Any) -> Any:
            device = recorder.device
            if device is None or is_compiling() or not device.computes_on(stream):
                return original(stream, *args, **kwargs)
            caller = str(sys._getframe(1).f_globals.get("__name__"))
            if caller.startswith("torch.distributed."):
                begin, end = WAIT, WAIT_END
                if SHARDED in recorder.notes:
                    tell_seen(recorder, SHARDED)
            elif any(map(device.copies_on, (*args, *kwargs.values()))):
                begin, end = COPY, COPY_END
            else:
                return original(stream, *args, **kwargs)
            if not device.is_training():
                return original(stream, *args, **kwargs)
            append((begin, clock(), recorder.thread))
            try:
                return original(stream, *args, **kwargs)
            finally:
                append((end, clock(), recorder.thread))

        return waiting

    return make


def tell_unseen(recorder: Recorder, why: str) -> None:
    """From now on there may be waits that nobody sees."""
    if why not in recorder.notes:
        recorder.notes[why] = None
        recorder.note(UNSEEN, _reasons(recorder))


def tell_seen(recorder: Recorder, why: str) -> None:
    """That is no reason any more."""
    recorder.notes.pop(why, None)
    recorder.note(UNSEEN, _reasons(recorder))


def _reasons(recorder: Recorder) -> int:
    return sum(why in recorder.notes for why in (COMPILED, SHARDED))
