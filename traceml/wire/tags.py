"""Why a step is left out of the statistics."""

from enum import IntFlag


class Tag(IntFlag):
    """One bit each; a step with several counts as the first of them."""

    WARMUP = 1
    COMPILE = 2
    CHECKPOINT = 4
    EVAL = 8
    USER = 16

    @property
    def label(self) -> str:
        """The tag as metrics and summaries spell it."""
        return (self.name or "unknown").lower()

    @classmethod
    def named(cls, name: object) -> "Tag":
        """The tag of that name; USER for any other."""
        return next((tag for tag in cls if tag.label == name), cls.USER)
