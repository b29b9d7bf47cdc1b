"""When the ranks of a node report: in turn, and the more they are, the less often."""

SHORTEST_SECONDS = 0.25
LONGEST_SECONDS = 1.0
NODE_REPORTS_PER_SECOND = 64  # of all its ranks, unless that takes longer than the longest


def report_seconds(ranks: int) -> float:
    """How often each of so many ranks reports."""
    return min(max(SHORTEST_SECONDS, ranks / NODE_REPORTS_PER_SECOND), LONGEST_SECONDS)


def next_turn(now: float, turn: float, period: float) -> float:
    """When a rank reports next, once in each period.

    The ranks of a node share this clock, and each has its own part of the period (0 to 1): if
    all came at the same moment, each would wait for the others, and scrapers for them all.
    """
    return now + period - (now - turn * period) % period
