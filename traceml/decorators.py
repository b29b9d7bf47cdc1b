"""An import path that existing users have; see `traceml`."""

from traceml.rank.step import trace_step

__all__ = ["trace_step"]
