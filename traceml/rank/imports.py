"""Doing something as soon as a module has been imported, and not importing it for that."""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Then = Callable[[ModuleType], None]


def when_imported(name: str, then: Then) -> None:
    """Call `then` with the module: now if it is there, else once its import is done."""
    if name in sys.modules:
        then(sys.modules[name])
        return
    for finder in sys.meta_path:
        if isinstance(finder, _Watch):
            break
    else:
        finder = _Watch()
        sys.meta_path.insert(0, finder)
    finder.wanted.setdefault(name, []).append(then)


class _Watch(MetaPathFinder):
    """Finds nothing itself; lends an ear to what the others find."""

    def __init__(self) -> None:
        self.wanted: dict[str, list[Then]] = {}
        self._asking: set[str] = set()  # others may do as we do, and ask us in turn

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec as the others find it, so that we hear of the end of the import."""
        if name not in self.wanted or name in self._asking:
            return None
        self._asking.add(name)
        try:
            found = self._ask_others(name, path, target)
        finally:
            self._asking.discard(name)
        if found is not None and found.loader is not None:
            self._listen(name, found.loader)
        return found

    def _ask_others(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in sys.meta_path:
            find_spec = getattr(finder, "find_spec", None)
            if find_spec is None or finder is self:
                continue
            found: ModuleSpec | None = find_spec(name, path, target)
            if found is not None:
                return found
        return None

    def _listen(self, name: str, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module  # from the instance: its class's own is back
            execute(module)
            for then in self.wanted.pop(name, ()):
                then(module)

        loader.exec_module = exec_module
