"""What the training thread writes down: that something began or ended, and when.

One append is all that a hook can afford. What the entries mean is worked out
later, by `replay`, on the sender's thread.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from threading import get_ident
from time import perf_counter_ns as clock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traceml.rank.allocator import Allocator
    from traceml.rank.device_clock import DeviceClock

# With the time at which it happened.
(
    FETCH, FETCH_EVAL, FETCH_END, COPY, COPY_END,
    FORWARD_EVAL, FORWARD_UNSURE, FORWARD_QUIET, FORWARD_TRAIN, FORWARD_FROZEN, FORWARD_END,
    BACKWARD, READY, BACKWARD_END, GRADIENT, GRADIENT_END,
    OPTIMIZER, OPTIMIZER_END, WAIT, WAIT_END, ZERO_GRAD, SCOPE, SCOPE_END, ABANDON,
) = range(24)  # fmt: skip
# With a value.
BATCH, WHICH, TAG, NUMBER, UNMARKED, DISTRIBUTED, UNSEEN, MEMORY = range(24, 32)
# Of the device's clock: it begins, so many marks had these times, it ends.
DEVICE, DEVICE_TIMES, DEVICE_END = range(32, 35)

# Of TAG, above all tags: something was saved. Done in most steps it is part of them.
SAVED = 1 << 10

# What it is, when it was or how much, and on which thread.
Entry = tuple[int, Any, int]

CAPACITY = 1 << 18  # a quarter second of the shortest steps there are
NUMBERED_EVERY = 64  # scopes

NOBODY = 0  # no thread has this identity: entries count no more


class Recorder:
    """The entries of this process, and whose they are.

    Any thread may write; those of the thread in `thread` count, because to compare
    threads costs a hook more than to name its own. No lock: a bounded deque's own
    operations are atomic, and a full one forgets its oldest entries.

    In the hooks, code and data are cold: the training has used the caches. So they
    keep what they need in the defaults of their arguments, which lie together.
    """

    __slots__ = (
        "_entries", "allocator", "append", "attention", "blind", "device", "faults", "in_forward",
        "keep", "notes", "optimizers_made", "price_ns", "scopes", "thread",
    )  # fmt: skip

    def __init__(self, capacity: int = CAPACITY, divertible: bool = False) -> None:
        self._entries: deque[Entry] = deque(maxlen=capacity)
        self.keep: Callable[[Entry], None] = self._entries.append
        # Hooks hold on to what this is now, and only a partial can be changed afterwards.
        self.append: Callable[[Entry], None] = partial(self.keep) if divertible else self.keep
        self.device: DeviceClock | None = None  # the clock that entries also go by
        self.allocator: Allocator | None = None  # of the device, to be read now and then
        self.thread = get_ident()
        self.scopes = 0
        self.in_forward = False  # a root is being called: calls within it are part of it
        self.optimizers_made = 0
        self.blind = False  # the reader saw a backward without a forward
        self.attention = False  # the next optimizer step should look after the roots
        self.faults = 0
        self.notes: dict[str, None] = {}  # sentences for the summary: what can't be measured
        self.price_ns = self._price_of_an_entry()

    def silence(self) -> None:
        """Let no entry count any more, for good."""
        self.thread = NOBODY

    @property
    def is_divertible(self) -> bool:
        """Whether entries can be passed to something else."""
        return isinstance(self.append, partial)

    def divert(self, to: Callable[[Entry], None]) -> None:
        """From now on hooks pass their entries to this, where that can be; it has to keep them."""
        if self.is_divertible:
            setstate: Any = self.append.__setstate__  # type: ignore[attr-defined]
            setstate((to, (), {}, None))

    def finish(self) -> None:
        """A scope of the user's ends."""
        allocator = self.allocator
        if allocator is not None and clock() >= allocator.due_ns:
            allocator.scope_ends()
        self.append((SCOPE_END, clock(), self.thread))
        self.scopes += 1
        if not self.scopes % NUMBERED_EVERY:  # so that the reader finds its place again
            self.note(NUMBER, self.scopes)

    def mark(self, code: int) -> None:
        """Write an entry with the time, as of the training thread."""
        self.append((code, clock(), self.thread))

    def note(self, code: int, value: int = 1) -> None:
        """Write an entry with a value, as of the training thread."""
        self.append((code, value, self.thread))

    def take(self) -> tuple[list[Entry], bool]:
        """Remove and return all entries, oldest first, and whether some may be forgotten."""
        entries = self._entries
        taken = [entries.popleft() for _ in range(len(entries))]
        return taken, len(taken) + len(entries) >= (entries.maxlen or 0)

    def clear(self) -> None:
        """Forget all entries."""
        self._entries.clear()

    def _price_of_an_entry(self, samples: int = 15) -> int:
        """What a hook takes for one entry when the training has used the caches.

        Timing every hook in place would double its cost, so their price is taken once.
        """

        def hook(
            append: Callable[[Entry], None] = self.append,
            clock: Callable[[], int] = clock,
            ident: Callable[[], int] = get_ident,
        ) -> None:
            append((WAIT, clock(), ident()))

        prices = []
        for _ in range(samples):
            bytes(4 << 20)  # as the training does: everything else out of the caches
            begin = clock()
            hook()
            prices.append(clock() - begin)
        self.clear()
        return sorted(prices)[samples // 2]
