"""TraceML: why is this training slow, and which rank and phase is to blame.

    from traceml import trace_step

    for batch in loader:
        with trace_step(model):
            ...

Without `TRACEML_ENDPOINT` in the environment (as set by `traceml run`) every
name here does nothing.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["__version__", "final_summary", "step_tag", "summary", "trace_step"]

if TYPE_CHECKING:
    from traceml.rank.step import final_summary, step_tag, summary, trace_step


def __getattr__(name: str) -> Any:
    # Late, because it needs torch, and the command line must not.
    if name in __all__:
        from traceml.rank import step

        found = globals()[name] = getattr(step, name)
        return found
    raise AttributeError(f"module 'traceml' has no attribute {name!r}")
