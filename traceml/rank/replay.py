"""Entries into steps: what happened, in phases, cut where one step ends and the next begins.

Runs on the sender's thread.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from traceml.rank import events
from traceml.rank.boundary import Boundary
from traceml.rank.events import Entry, Recorder
from traceml.rank.phases import Phases
from traceml.rank.readings import Carried, Reading
from traceml.rank.slots import (
    BACKWARD,
    BACKWARDS,
    COLLECTIVE_WAIT,
    DATALOADER,
    ELEMENTS,
    ENDS,
    ENTRIES,
    FORWARD,
    FORWARDS,
    H2D,
    LOSS,
    OPTIMIZER,
    READING,
    SAMPLES,
    STEP,
    TAGS,
    UNMARKED,
    Row,
    joined,
)
from traceml.wire.tags import Tag

BY_HAND = (
    "No optimizer step was seen, so each backward pass counts as a step "
    "and the update of the parameters as other."
)
BLIND = (
    "In some steps the model's calls were not seen, as when they run inside a compiled function: "
    "they have no figure for forward, and if none has, its time is in other."
)
LOST = "TraceML fell behind this training and stopped recording it."

_BLIND_STEPS = 5  # in a row, until it is said
# Above all tags: the model was called or a batch fetched as for an evaluation, or another
# model that does not train was.
_EVALUATED, _ASKED_ANOTHER = 1 << 8, 1 << 9
_SIGNS = {_EVALUATED: Tag.EVAL, _ASKED_ANOTHER: Tag.EVAL, events.SAVED: Tag.CHECKPOINT}


class Replay:
    """Turns the entries of one process into rows, one a step."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.phases = Phases()  # since the candidate, if there is one
        self.memory = Carried()
        self._ended: Row | None = None  # the candidate: a step that may be over
        self._rows: list[Row] = []
        self._boundary = Boundary()
        self._explicit = False  # the user says where steps end
        self._first_scope = 0  # the number of the step where that began
        self._astray = False  # entries were lost: until a number comes steps can't be counted
        self._is_deaf = False  # entries were lost, and no number will come
        self._by_hand = False  # each backward is taken for a step
        self._which = 0  # the optimizer that steps, or did last
        self._known: set[int] = set()  # optimizers that have stepped before
        self._stepped = False  # one has since the last candidate
        self._directly_after_optimizer = False
        self._loss_follows = False  # the forward under way may be followed by a loss
        self._unclaimed = False  # an unsure forward that no backward has followed yet
        self._signs: Counter[int] = Counter()  # steps with a sign of something special
        self._blind_steps = 0  # in a row: with a backward, without a forward
        self.steps = 0
        self.dropped = 0
        self._handlers = self._make_handlers()

    def feed(self, entries: Sequence[Entry], lost: bool = False) -> list[Row]:
        """Go on with these entries; returns the steps that are over now."""
        if lost:
            self._lose_place()
        if self._is_deaf:
            return []
        handlers, training_thread = self._handlers, self._recorder.thread
        for code, value, thread in entries:
            if thread != training_thread:
                continue
            handlers[code](value)
            self.phases.row[ENTRIES] += 1
            if code != events.WHICH:
                self._directly_after_optimizer = code == events.OPTIMIZER
        return self._take()

    def finish(self) -> list[Row]:
        """There will be no more entries: settle what was open."""
        self.phases.leave_loss(self.phases.since)
        self._turn(self.phases.since)
        if self._known or self._by_hand:
            self._emit_ended()
        return self._take()

    @property
    def tags(self) -> int:
        """What the step under way is known to be, so far."""
        tags = self.phases.row[TAGS]
        for sign, tag in _SIGNS.items():
            if tags & sign:
                tags = tags & ~sign | (tag if self._is_exception(sign) else 0)
        return tags

    def _take(self) -> list[Row]:
        rows, self._rows = self._rows, []
        return rows

    def _make_handlers(self) -> list[Callable[[Any], object]]:
        handlers: dict[int, Callable[[Any], object]] = {
            events.FETCH: self._fetch,
            events.FETCH_EVAL: self._fetch_eval,
            events.FETCH_END: lambda now: self.phases.leave(DATALOADER, now),
            events.COPY: lambda now: self.phases.enter(H2D, now),
            events.COPY_END: lambda now: self.phases.leave(H2D, now),
            events.FORWARD_EVAL: self._forward_eval,
            events.FORWARD_UNSURE: self._forward_unsure,
            events.FORWARD_QUIET: self._forward,
            events.FORWARD_TRAIN: self._forward_train,
            events.FORWARD_FROZEN: self._forward_frozen,
            events.FORWARD_END: self._forward_end,
            events.BACKWARD: self._backward,
            events.READY: self._ready,
            events.BACKWARD_END: self._backward_end,
            events.GRADIENT: self._backward,
            events.GRADIENT_END: self._gradient_end,
            events.OPTIMIZER: self._optimizer,
            events.OPTIMIZER_END: self._optimizer_end,
            events.WAIT: lambda now: self.phases.enter(COLLECTIVE_WAIT, now),
            events.WAIT_END: lambda now: self.phases.leave(COLLECTIVE_WAIT, now),
            events.ZERO_GRAD: self._zero_grad,
            events.SCOPE: self._scope,
            events.SCOPE_END: self._scope_end,
            events.ABANDON: self._abandon,
            events.BATCH: self._batch,
            events.WHICH: self._set_which,
            events.TAG: self.phases.tag,
            events.NUMBER: self._find_place,
            events.UNMARKED: lambda value: self.phases.count(UNMARKED, value),
            events.DISTRIBUTED: lambda _: self.phases.measures(COLLECTIVE_WAIT),
            events.UNSEEN: self.phases.leave_waits_unseen,
            events.MEMORY: self._read,
        }
        return [handlers[code] for code in range(len(handlers))]

    # -- what happens in a step

    def _fetch(self, now: int) -> None:
        self.phases.leave_loss(now)
        if self._boundary.fetch():
            self._emit_ended()
        self._turn(now)
        self.phases.enter(DATALOADER, now)

    def _batch(self, shape: Any) -> None:
        """A batch has come; its first tensor has this shape."""
        self.phases.count(SAMPLES, shape[0])
        self.phases.count(ELEMENTS, shape.numel())

    def _read(self, reading: Reading) -> None:
        """The device's memory was read."""
        self.memory.take(reading)
        self.phases.count(READING, reading.cost_ns)

    def _fetch_eval(self, now: int) -> None:
        self._fetch(now)
        self.phases.tag(_EVALUATED)

    def _forward(self, now: int) -> None:
        """A call of the model, whatever for."""
        self.phases.leave_loss(now)
        if self.phases.is_in(BACKWARD):
            return  # activations computed again are backward's work
        if not self.phases.is_in(FORWARD):
            self._loss_follows = False
            self._turn(now)
        self.phases.enter(FORWARD, now)
        self.phases.row[FORWARDS] += 1

    def _forward_eval(self, now: int) -> None:
        self._forward(now)
        self.phases.tag(_EVALUATED)

    def _forward_frozen(self, now: int) -> None:
        """Of a model that never trains: a teacher, or the average that is evaluated."""
        self._forward(now)
        self.phases.tag(_ASKED_ANOTHER)

    def _forward_train(self, now: int) -> None:
        if self.phases.is_in(BACKWARD):
            return
        self.phases.leave_loss(now)
        if self.phases.is_in(OPTIMIZER):
            self._compute_in_closure()
        elif self.phases.is_outermost and self._boundary.forward():
            self._emit_ended()
        if self._unclaimed and not self.phases.is_in(FORWARD):
            self.phases.tag(_EVALUATED)
            self._unclaimed = False
        self._forward(now)
        self._loss_follows = True

    def _forward_unsure(self, now: int) -> None:
        """In eval mode, but with gradients: training if a backward follows."""
        outermost = not (self.phases.is_in(FORWARD) or self.phases.is_in(BACKWARD))
        before = self._unclaimed
        self._unclaimed = False
        self._forward_train(now)
        self._unclaimed = before or outermost

    def _forward_end(self, now: int) -> None:
        if (
            self.phases.leave(FORWARD, now)
            and self._loss_follows
            and self.phases.current != FORWARD
        ):
            self.phases.enter(LOSS, now)

    def _backward(self, now: int) -> None:
        if self.phases.is_in(FORWARD):
            return  # a model that differentiates within its forward
        self.phases.leave_loss(now)
        row = self.phases.row
        row[BACKWARDS] += 1
        if row[FORWARDS]:
            row[FORWARD] += row[LOSS]
            row[ENDS + FORWARD] = max(row[ENDS + FORWARD], row[ENDS + LOSS])
            row[LOSS] = 0
        self._unclaimed = False
        self._boundary.active()
        if self.phases.is_in(OPTIMIZER):
            self._compute_in_closure()
        self.phases.enter(BACKWARD, now)

    def _backward_end(self, now: int) -> None:
        self.phases.leave(BACKWARD, now)
        self._consider(now)

    def _gradient_end(self, now: int) -> None:
        """Of `autograd.grad`: what follows may be a loss that uses it."""
        if self.phases.leave(BACKWARD, now) and self.phases.is_outermost:
            self.phases.enter(LOSS, now)

    def _ready(self, now: int) -> None:
        if self.phases.current == BACKWARD:
            self.phases.enter(COLLECTIVE_WAIT, now)

    def _set_which(self, which: int) -> None:
        self._which = which

    def _optimizer(self, now: int) -> None:
        self.phases.leave_loss(now)
        if not self._directly_after_optimizer:
            self.phases.leave(OPTIMIZER, now)  # one that raised did not say that it ended
        if self._boundary.optimizer(self._which):
            self._emit_ended()
        self.phases.enter(OPTIMIZER, now)

    def _compute_in_closure(self) -> None:
        """An optimizer computes gradients itself: it has begun a step of its own."""
        self._boundary.active()
        if self._boundary.optimizer(self._which):
            self._emit_ended()

    def _optimizer_end(self, now: int) -> None:
        self.phases.leave_loss(now)
        self.phases.leave(OPTIMIZER, now)
        if self._which not in self._known:
            self._known.add(self._which)
            self._recorder.notes.pop(BY_HAND, None)
            self._by_hand = False
            self.phases.tag(Tag.WARMUP)
        self._boundary.stepped(self._which)
        self._stepped = True
        self._consider(now)

    # -- where steps end

    def _consider(self, now: int) -> None:
        """An optimizer has stepped and nothing is under way: the step may be over."""
        if self._stepped and self.phases.is_outermost and not self._explicit:
            self._stepped = False
            self._boundary.candidate()
            self._end_here(now)

    def _turn(self, now: int) -> None:
        """A round of the loop may begin here, if no optimizer says where it does."""
        if self._knows_ends() or not self.phases.is_outermost or not self.phases.row[BACKWARDS]:
            return
        self._end_here(now)
        if not self._recorder.optimizers_made:
            self._end_by_hand()

    def _zero_grad(self, now: int) -> None:
        """Gradients are used up, though no optimizer was seen to use them."""
        self._turn(now)
        if not self._knows_ends() and self._ended is not None:
            self._end_by_hand()

    def _knows_ends(self) -> bool:
        return self._explicit or bool(self._known)

    def _end_by_hand(self) -> None:
        self._by_hand = True
        self._recorder.notes[BY_HAND] = None
        self._emit_ended()

    def _end_here(self, now: int) -> None:
        part = self.phases.close(now)
        self._ended = part if self._ended is None else joined(self._ended, part)

    def _scope(self, _: int) -> None:
        """From now on the user says where steps end."""
        if self._ended is not None:
            self._emit_ended()
        self._explicit = True
        self._first_scope = self.steps
        self._boundary = Boundary()

    def _scope_end(self, now: int) -> None:
        if not self._explicit:
            self._scope(now)
        row = self.phases.close(now)
        self.phases.leave_all()
        if not self._astray:
            self._emit(row)

    def _abandon(self, now: int) -> None:
        """Forget the step under way: an exception ended it."""
        self.phases.close(now)
        self.phases.leave_all()

    def _emit_ended(self) -> None:
        row, self._ended = self._ended, None
        if row is not None:
            self._emit(row)

    def _emit(self, row: Row) -> None:
        if self.steps == 0:
            row[TAGS] |= Tag.WARMUP
        for sign, tag in _SIGNS.items():
            if row[TAGS] & sign:
                self._judge(row, sign, tag)
        self.memory.fill(row)
        row[STEP] = self.steps
        self.steps += 1
        self._rows.append(row)
        self._look_for_blindness(row)

    def _judge(self, row: Row, sign: int, tag: Tag) -> None:
        """An evaluation is the exception. What is done in most steps is part of them."""
        row[TAGS] &= ~sign
        if self._is_exception(sign):
            row[TAGS] |= tag
        self._signs[sign] += 1

    def _is_exception(self, sign: int) -> bool:
        return 2 * (self._signs[sign] + 1) <= self.steps + 1

    def _look_for_blindness(self, row: Row) -> None:
        if row[FORWARDS]:
            self._blind_steps = 0
        if row[FORWARDS] or not row[BACKWARDS] or row[TAGS]:
            return
        self._blind_steps += 1
        self._recorder.blind = self._recorder.attention = True
        if self._blind_steps == _BLIND_STEPS:
            self._recorder.notes[BLIND] = None

    def _lose_place(self) -> None:
        """Entries were overwritten before they were read."""
        if self._explicit:
            self._astray = True
        elif self.steps or self._known:
            self._is_deaf = True
            self._recorder.notes[LOST] = None
            self._recorder.silence()

    def _find_place(self, scopes: int) -> None:
        """The user's scopes are numbered: here is one of them."""
        if self._astray:
            self._astray = False
            step = self._first_scope + scopes
            self.dropped += step - self.steps
            self.steps = step
