"""The command line: one module per sub-command, each thin.

Never imports torch.
"""

from traceml.cli.main import main

__all__ = ["main"]
