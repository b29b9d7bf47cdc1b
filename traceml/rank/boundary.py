"""Where one step ends and the next begins, in a loop that does not say so.

A step ends with the last optimizer step before the next fetch or training
forward. Which one was the last shows only afterwards, so the end of a step is
first a candidate: what follows either settles it or takes it back.
"""

_MAX_PATTERNS = 64


class Boundary:
    """Follows the order of events; each question is whether the candidate was the end.

    Different optimizers that step between two fetches share a step (a GAN). In a
    loop without fetches they do if they stepped together before, or from the very
    beginning. The same optimizer again, after a forward or backward, is a new step.
    """

    def __init__(self) -> None:
        self._pending = False  # there is a candidate
        self._stepped: set[int] = set()  # the optimizers of the step
        self._together: set[frozenset[int]] = set()  # those of the steps so far
        self._fetched = False
        self._was_active = False  # a forward or backward since the candidate

    def fetch(self) -> bool:
        """A batch is fetched."""
        over = self._settle(self._pending)
        self._fetched = True
        return over

    def forward(self) -> bool:
        """A training forward begins."""
        self._was_active = True
        return self._settle(self._pending and not self._fetched and self._is_whole())

    def active(self) -> None:
        """A backward begins, or a forward that does not count otherwise."""
        self._was_active = True

    def optimizer(self, which: int) -> bool:
        """An optimizer begins to step."""
        again = which in self._stepped or not self._may_join(which)
        return self._settle(self._pending and self._was_active and again)

    def stepped(self, which: int) -> None:
        """An optimizer has stepped."""
        self._stepped.add(which)

    def candidate(self) -> None:
        """The step may have ended here."""
        self._pending = True
        self._was_active = False

    def _settle(self, over: bool) -> bool:
        if over:
            if len(self._together) < _MAX_PATTERNS:
                self._together.add(frozenset(self._stepped))
            self._stepped.clear()
            self._pending = self._fetched = False
        return over

    def _is_whole(self) -> bool:
        return bool(self._together) and not any(self._stepped < known for known in self._together)

    def _may_join(self, which: int) -> bool:
        if self._fetched or not self._together:
            return True
        joined = self._stepped | {which}
        return any(joined <= known for known in self._together)
