"""Living with torch's compiler: seeing it work, and staying out of its sight."""

import sys
from collections.abc import Callable
from typing import Any

from traceml.rank.events import TAG, Recorder
from traceml.rank.patches import Patches
from traceml.wire.tags import Tag


def hook_compilation(dynamo: Any, recorder: Recorder, patches: Patches) -> None:
    """Tag steps in which this module, `torch._dynamo`, compiles."""

    handler = getattr(dynamo, "callback_handler", None)
    if handler is None:
        return
    callbacks: list[Any] = handler.start_callbacks

    def compiles(*_: Any) -> None:
        recorder.note(TAG, Tag.COMPILE)

    def forget() -> None:
        if compiles in callbacks:  # dynamo's reset() drops them all
            callbacks.remove(compiles)

    callbacks.append(compiles)
    patches.on_undo(forget)


def hide(dynamo: Any, ours: tuple[Callable[..., Any], ...]) -> None:
    """Where backward runs inside a compiled function, our hooks would be compiled too."""
    for hook in ours:
        dynamo.eval_frame.skip_code(hook.__code__)


def aside(function: Callable[[], None]) -> None:
    """Call something of ours that is not for a compiler, should one be at work around us."""
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is not None:
        function = dynamo.disable(function)
    function()
