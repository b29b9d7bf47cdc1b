"""What people do with `Tensor.to` and its class, each use with its outcome, printed as JSON.

Run as a program of its own: bare, or traced from `before` the uses were defined or from `after`
all were made once, with a torch that seems to have an accelerator. Outcomes must be the same.
"""

import copy
import functools
import inspect
import json
import os
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, get_overridable_functions, resolve_name
from torch.utils.data import DataLoader, Dataset


class Nobody:
    """A sender that sends nothing."""

    def __init__(self, *_: object) -> None:
        pass

    def start(self) -> None:
        pass

    hold = release = disown = close = start


def trace() -> Any:
    """Everything TraceML does in a process, on a torch that could use an accelerator."""
    from traceml.rank import sender
    from traceml.rank.tracer import Tracer

    torch.version.xpu = "pretended"
    with mock.patch.object(sender, "Sender", Nobody):
        tracer = Tracer("unix:///nobody.sock")
        torch.nn.Linear(1, 1)(torch.ones(1)).sum().backward()  # it sends from now on
    return tracer


MODE = sys.argv[1] if __name__ == "__main__" else ""
TRACER = trace() if MODE == "before" else None

import torch._dynamo.testing  # noqa: E402 - it looks at tensors' methods when it is imported

COUNTER = torch._dynamo.testing.CompileCounter()
WIDE = torch.float64
KEEP = {Tensor.to, Tensor.clone, Tensor.requires_grad_}  # as torchvision collects them
PARTIAL = functools.partial(Tensor.to, dtype=WIDE)


class Plain(Tensor):
    pass


class Forwarding(Tensor):
    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # as most do
        return super().__torch_function__(func, types, args, kwargs or {})


class Boxes(Tensor):
    """Stays of its type only where the function is one of those collected."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            out = func(*args, **(kwargs or {}))
        return out.as_subclass(cls) if func in KEEP else out


class Recording(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(getattr(func, "__name__", "?"))
        return func(*args, **(kwargs or {}))


class Passing(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def method(x: Tensor) -> Tensor:
    return x.to(WIDE) + 1


def of_a_result(x: Tensor) -> Tensor:
    return (x * 2).to(WIDE) + 1


def unbound(x: Tensor) -> Tensor:
    return Tensor.to(x, WIDE) + 1


def partial(x: Tensor) -> Tensor:
    return PARTIAL(x) + 1


def looked_up(x: Tensor) -> Tensor:
    widen = x.to
    return widen(WIDE) + 1


def asked_for(x: Tensor) -> Tensor:
    return x + 1 if hasattr(x, "to") and hasattr(Tensor, "cuda") else x


def cuda(x: Tensor) -> Tensor:
    return x.cuda() if x.is_cuda else x.to("cpu") + 1


def in_a_mode(x: Tensor) -> Tensor:
    with Passing():
        return x.to(WIDE) + 1


def nested(x: Tensor) -> Tensor:
    return torch.compile(of_a_result, backend=COUNTER)(x) + x.to(WIDE)


def broken(x: Tensor) -> Tensor:
    wide = x.to(WIDE)
    torch._dynamo.graph_break()
    return wide.to(x.dtype) + not_compiled(wide)


@torch._dynamo.disable(recursive=False)
def not_compiled(x: Tensor) -> Tensor:
    return called_back(x.to(torch.float32))


def called_back(x: Tensor) -> Tensor:
    return x.to(WIDE) + 1


def by_backend(x: Tensor) -> Tensor:
    return x.to(WIDE) * 2 + Tensor.to(x, WIDE)


class Module(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.register_buffer("offset", torch.ones(3).as_subclass(Forwarding))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x.to(torch.float32)) + self.offset.to(torch.float32)


MODULE = Module()


compile_once = functools.cache(torch.compile)


def compiled(function: Any, x: Tensor, backend: Any = COUNTER) -> object:
    """Of what type the result is, and how many graphs it took, called several times."""
    frames = COUNTER.frame_count
    fullgraph = function not in (broken, nested)
    run = compile_once(function, backend=backend, fullgraph=fullgraph)
    result = [run(x) for _ in range(3)][-1]
    return type(result).__name__, str(result.dtype), COUNTER.frame_count - frames


def uses_compiled() -> dict[str, Callable[[], object]]:
    functions: dict[str, Any] = {
        function.__name__: function
        for function in (
            method, of_a_result, unbound, partial, looked_up, asked_for, cuda, in_a_mode,
            nested, broken,
        )
    } | {"module": MODULE}  # fmt: skip
    found: dict[str, Callable[[], object]] = {}
    for kind in (Tensor, Plain, Forwarding):
        x = torch.ones(3).as_subclass(kind)
        for name, function in functions.items():
            found[f"compiled: {name}, {kind.__name__}"] = functools.partial(compiled, function, x)
    for backend in ("aot_eager", "inductor"):
        use = functools.partial(compiled, by_backend, torch.ones(4), backend)
        found[f"compiled by {backend}"] = use
    return found | {"compiled in a thread": compiled_in_a_thread}


def compiled_in_a_thread() -> object:
    found: list[object] = []
    x = torch.ones(5, 1, dtype=torch.float16).as_subclass(Forwarding)
    thread = threading.Thread(target=lambda: found.append(compiled(of_a_result, x)))
    thread.start()
    thread.join()
    return found


def exported(strict: bool) -> object:
    class Both(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.to(WIDE) + Tensor.to(x, WIDE)

    return torch.export.export(Both(), (torch.ones(3),), strict=strict).graph_module.code


def scripted() -> object:
    @torch.jit.script
    def widen(x: Tensor) -> Tensor:
        return x.to(torch.float64)

    return widen.code, str(widen(torch.ones(1)).dtype)


def symbolic() -> object:
    return torch.fx.symbolic_trace(method).code, outcome(lambda: torch.fx.symbolic_trace(unbound))


def make_fx() -> object:
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(method)(torch.ones(3)).code


def functorch() -> object:
    x = torch.arange(6.0).reshape(2, 3)
    grad = torch.func.grad(lambda y: method(y).sum() + unbound(y).sum())
    return (
        torch.func.vmap(method)(x).tolist(),
        grad(x).tolist(),
        torch.func.vmap(grad)(x).tolist(),
        torch.func.jvp(method, (x,), (x,))[1].tolist(),
    )


def pickled() -> object:
    again = pickle.loads(pickle.dumps(Tensor.to))
    bound = pickle.loads(pickle.dumps(torch.ones(2).to))
    return again is Tensor.to, again is torch._C.TensorBase.to, str(bound(WIDE).dtype)


def copied() -> object:
    alike = copy.copy(Tensor.to), copy.deepcopy(Tensor.to), copy.deepcopy(PARTIAL).func
    return [one is Tensor.to for one in alike]


def inspected() -> object:
    return (
        repr(Tensor.to), Tensor.to.__qualname__, type(Tensor.to).__name__, Plain.to is Tensor.to,
        dict(inspect.getmembers(Tensor))["to"] is Tensor.to, Tensor.to.__doc__,
        torch.ones(1).to.__name__, torch.ones(1).to.__doc__, dir(Tensor),
    )  # fmt: skip


def overridable() -> object:
    known = get_overridable_functions()[Tensor]
    return Tensor.to in known, resolve_name(Tensor.to), len(known)


def seen_by_a_mode() -> object:
    with Recording() as mode:
        torch.ones(1).to(WIDE)
        torch.ones(1).to("meta")
        torch.ones(1).to(tensor=torch.ones(1, device="meta"))
    return mode.seen


def lazy_parameter() -> object:
    return type(torch.nn.parameter.UninitializedParameter().to(WIDE)).__name__


def of_boxes() -> str:
    return type(torch.ones(2).as_subclass(Boxes).to(WIDE)).__name__


def replaced_for_a_while() -> object:
    with mock.patch.object(Tensor, "to", return_value="theirs"):
        theirs = torch.ones(1).to(WIDE)
    return theirs, str(torch.ones(1).to(WIDE).dtype), of_boxes()


class InWorkers(Dataset[str]):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> str:
        return of_boxes()


def in_workers(context: str) -> object:
    loader = DataLoader(
        InWorkers(), batch_size=None, num_workers=1, multiprocessing_context=context
    )
    return list(loader)


def as_target(context: str) -> object:
    process = torch.multiprocessing.get_context(context).Process(
        target=Tensor.to, args=(torch.ones(2), WIDE)
    )
    process.start()
    process.join()
    return process.exitcode


def uses() -> dict[str, Callable[[], object]]:
    plain: tuple[Callable[[], object], ...] = (
        scripted, symbolic, make_fx, functorch, pickled, copied, inspected, overridable,
        seen_by_a_mode, lazy_parameter, of_boxes, replaced_for_a_while,
    )  # fmt: skip
    found = {use.__name__.replace("_", " "): use for use in plain}
    for context in ("fork", "spawn"):
        found[f"in workers by {context}"] = functools.partial(in_workers, context)
        found[f"as target by {context}"] = functools.partial(as_target, context)
    for strict in (True, False):
        found[f"exported, strict: {strict}"] = functools.partial(exported, strict)
    return found


def outcome(use: Callable[[], object]) -> str:
    try:
        return repr(use())
    except Exception as error:
        return f"{type(error).__name__}: {error}".split("\n")[0]


def made(all_uses: dict[str, Callable[[], object]]) -> dict[str, str]:
    return {name: outcome(use) for name, use in all_uses.items()}


def main() -> None:
    rounds = [made(uses_compiled())]
    tracer = TRACER or (trace() if MODE == "after" else None)
    rounds += [made(uses_compiled()), made(uses())]
    torch._dynamo.reset()  # forgets whom it would have told of compilations
    rounds.append(made(uses_compiled()))
    notes = list(tracer.recorder.notes) if tracer else []
    faults = tracer.recorder.faults if tracer else 0
    held = type(inspect.getattr_static(Tensor, "to")).__module__
    print(json.dumps({"rounds": rounds, "held": held, "notes": notes, "faults": faults}))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
