"""Replacing attributes of torch, and putting back what was there."""

from collections.abc import Callable
from typing import Any


class Patches:
    """What was replaced, so that it can be restored in reverse order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Set `owner.name` to `make(what it was)`; does nothing where there is no such name."""
        original = getattr(owner, name, None)
        if original is None:
            return
        ours = make(original)
        held = vars(owner).get(name)  # which need not be what it answers with; None: inherited
        setattr(owner, name, ours)

        def restore() -> None:
            if getattr(owner, name) is not ours:  # somebody has put theirs over it
                return
            if held is None:
                delattr(owner, name)
            else:
                setattr(owner, name, held)

        self._undo.append(restore)

    def on_undo(self, undo: Callable[[], None]) -> None:
        """Remember how to take back something that is no attribute."""
        self._undo.append(undo)

    def undo(self) -> None:
        """Restore everything."""
        while self._undo:
            self._undo.pop()()
