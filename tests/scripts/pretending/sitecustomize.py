"""On PYTHONPATH: torch looks as if it could use an accelerator, and TraceML treats it so.

What only a training on one gets is put in place too, though nothing here is on a device.
"""

from typing import Any

from traceml.rank.imports import when_imported


def _hook(step: Any) -> None:
    """As the tracer does where a device keeps time."""
    if step._tracer is None:
        return
    import torch

    from traceml.rank.device_clock import hook_captures
    from traceml.rank.waits import hook_device_waits

    hook_device_waits(torch.cuda, step._tracer.recorder, step._tracer._patches)
    hook_captures(torch.cuda, step._tracer, step._tracer._patches)


when_imported("torch.version", lambda version: setattr(version, "xpu", "pretended"))
when_imported("traceml.rank.step", _hook)
