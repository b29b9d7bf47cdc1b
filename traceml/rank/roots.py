"""Which modules are called to train: their calls are the forward pass.

To find them all models in the process are timed for a step or two; those that
are called, and not from within another, are the roots and stay timed. Torch's
global hooks would tell too, but dynamo compiles them in and warns of them.

Where objects are kept from the garbage collector (`gc.freeze`) it can't name the models.
Then their class's own call tells for these steps, which costs more.
"""

import functools
import gc
from collections.abc import Callable, Iterator
from threading import get_ident
from time import perf_counter_ns as clock
from typing import Any

import torch

from traceml.rank.dynamo import aside
from traceml.rank.events import Recorder
from traceml.rank.forward import PLACE, Root, forget_in_copies
from traceml.rank.patches import Patches
from traceml.rank.ready import ReadyMark
from traceml.rank.world import is_distributed

_MAX_ROOTS = 16  # the time between two calls counts as forward anyhow
_PATIENCE = 16  # optimizer steps without a call, or backwards, until a look is ended
_FREE_LOOKS = 10  # each goes through all objects there are: a tenth of a second or so
_SHARE = 0.05  # of the time, for more looks
_FRUITLESS = 5  # looks that found nothing, until it is given up for good


class Roots:
    """Finds the roots, times them, and has their gradients marked."""

    def __init__(self, recorder: Recorder, ready: ReadyMark) -> None:
        self._recorder = recorder
        self._ready = ready
        self._roots: dict[int, Root] = {}
        self._candidates: dict[int, Root] = {}  # while looking
        self._calls = Patches()  # while calls tell which models there are
        self._is_told_by_calls = False
        self._chosen = False  # by the user
        self._stepped: set[int] = set()  # optimizers, since a candidate was called
        self._waited = 0  # optimizer steps in which no candidate was called
        self._backwards = 0  # since the look began
        self._looks = 0
        self._next_look_ns = 0
        self._fruitless = 0

    @property
    def modules(self) -> list[torch.nn.Module]:
        """The roots or, while looking, whatever may be one."""
        known = (*self._roots.values(), *self._candidates.values())
        return [module for root in known if (module := root.module) is not None]

    def is_timed(self, module: torch.nn.Module) -> bool:
        """Whether this module is a root, and timed."""
        root = self._roots.get(id(module))
        return root is not None and root.is_attached()

    def choose(self, module: torch.nn.Module) -> None:
        """Time this module and no other: the user says that it is the one."""
        self.release()
        self._chosen = True
        root = Root(module, self._recorder)
        self._roots = {id(module): root}
        root.attach()
        self._mark()

    def look(self) -> None:
        """Time all models until the same optimizer has stepped twice."""
        looking = self._candidates or self._is_told_by_calls
        if not (self._chosen or looking or self._fruitless == _FRUITLESS):
            self._carefully(self._look)

    def _look(self) -> None:
        recorder, begin = self._recorder, clock()
        recorder.attention = True
        recorder.blind = begin < self._next_look_ns  # then later
        if recorder.blind:
            return
        self._stepped.clear()
        self._waited = self._backwards = 0
        self._find_candidates()
        self._mark()
        self._looks += 1
        if self._looks >= _FREE_LOOKS:
            self._next_look_ns = clock() + int((clock() - begin) / _SHARE)

    def _find_candidates(self) -> None:
        modules = list(_modules_with_parameters())
        hidden = {id(part) for module in modules for part in _hidden_in(module)}
        self._roots = {key: root for key, root in self._roots.items() if root.module is not None}
        for module in modules:
            if id(module) not in self._roots and id(module) not in hidden:
                self._add_candidate(module)
        if not self._candidates and not self._roots and gc.get_freeze_count():
            self._is_told_by_calls = True
            self._calls.replace(torch.nn.Module, "__call__", self._calling)

    def _add_candidate(self, module: torch.nn.Module) -> None:
        self._candidates[id(module)] = root = Root(module, self._recorder, watch=True)
        root.attach()

    def _calling(self, original: Any) -> Any:
        recorder = self._recorder
        is_compiling = torch.compiler.is_dynamo_compiling

        @functools.wraps(original)
        def __call__(module: torch.nn.Module, /, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if not (is_compiling() or recorder.in_forward or get_ident() != recorder.thread):
                self._meet(module)
            return original(module, *args, **kwargs)

        return __call__

    def _meet(self, module: torch.nn.Module) -> None:
        try:
            if id(module) not in self._candidates and _has_parameters(module):
                self._add_candidate(module)
        except Exception:
            self._recorder.faults += 1

    def attend(self, optimizer: int) -> None:
        """An optimizer has stepped, and something asked for attention."""
        if self._candidates or self._is_told_by_calls:
            if self._is_settled(optimizer):
                self._carefully(self._decide)
        elif clock() >= self._next_look_ns:
            self._recorder.attention = False
            if self._recorder.blind:
                self.look()

    def attend_to_backward(self) -> None:
        """A backward has ended, and something asked for attention: there may be no optimizer."""
        self._backwards += 1
        if (self._candidates or self._is_told_by_calls) and self._backwards > _PATIENCE:
            self._carefully(self._decide)

    def _carefully(self, do: Callable[[], None]) -> None:
        """What happens once may fail, and be compiled; neither may touch the training."""
        try:
            aside(do)
        except Exception:
            self._recorder.faults += 1

    def _is_settled(self, optimizer: int) -> bool:
        """Whether every model that trains had its turn: an optimizer comes round again."""
        if not any(root.was_called for root in self._candidates.values()):
            self._waited += 1
            return self._waited > _PATIENCE
        if optimizer in self._stepped:
            return True
        self._stepped.add(optimizer)
        return False

    def release(self) -> None:
        """Leave all modules untimed."""
        for root in (*self._roots.values(), *self._candidates.values()):
            root.detach()
        self._candidates.clear()
        self._restore_calls()

    def hook(self, patches: Patches) -> None:
        """Time what is known, and follow modules that are compiled in place: that displaces us."""
        for root in self._roots.values():
            root.attach()
        forget_in_copies(patches)
        patches.replace(torch.nn.Module, "compile", self._compiling)

    def _compiling(self, original: Any) -> Any:
        @functools.wraps(original)
        def compiling(module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
            original(module, *args, **kwargs)
            for roots in (self._roots, self._candidates):
                root = roots.get(id(module))
                if root is not None and root.module is module:
                    root.attach()

        return compiling

    def _mark(self) -> None:
        if is_distributed():
            self._ready.attach(self.modules)

    def _decide(self) -> None:
        """Keep the candidates that were called, and leave the others alone."""
        candidates, self._candidates = self._candidates, {}
        called = [key for key, root in candidates.items() if root.was_called][:_MAX_ROOTS]
        self._fruitless = 0 if called else self._fruitless + bool(candidates)
        told_by_calls = self._is_told_by_calls
        self._restore_calls()
        self._make_room(len(called))
        for key in called:
            self._roots[key] = root = candidates.pop(key)
            root.is_watched = False
        for root in candidates.values():
            root.detach()
        if told_by_calls:
            self._mark()

    def _restore_calls(self) -> None:
        self._calls.undo()
        self._is_told_by_calls = False

    def _make_room(self, for_so_many: int) -> None:
        """Leave the oldest roots alone: models that were trained before."""
        while self._roots and len(self._roots) + for_so_many > _MAX_ROOTS:
            self._roots.pop(next(iter(self._roots))).detach()


def _modules_with_parameters() -> Iterator[torch.nn.Module]:
    """All that live in this process. Asks objects for nothing but their type."""
    kinds = set(_with_subclasses(torch.nn.Module))
    for thing in gc.get_objects():
        if type(thing) in kinds and _has_parameters(thing):
            yield thing


def _has_parameters(module: torch.nn.Module) -> bool:
    try:
        return next(module.parameters(), None) is not None
    except Exception:  # one that was never initialised, or has ideas of its own
        return False


def _with_subclasses(kind: type) -> Iterator[type]:
    yield kind
    subclasses: list[type] = type.__subclasses__(kind)
    for subclass in subclasses:
        yield from _with_subclasses(subclass)


def _hidden_in(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """The parts of a compiled module: they can't be timed, and might be compiled again."""
    if module.__dict__.get(PLACE) is not None or "_orig_mod" in module._modules:
        yield from (part for part in module.modules() if part is not module)
