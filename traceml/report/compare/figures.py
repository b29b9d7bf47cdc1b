"""Figures with a sign, for people."""

from traceml import units


def percent(ratio: float) -> str:
    """A ratio as a percentage, to a tenth."""
    return f"{ratio * 100:.1f} %"


def signed_percent(ratio: float) -> str:
    """A change as a percentage; from a hundredfold on as a multiple."""
    return f"{ratio * 100:+.1f} %" if abs(ratio) < 100 else f"{ratio:+.0f} x"


def amount(value: float, unit: str) -> str:
    """Seconds, bytes, a ratio or a rate."""
    if unit == "seconds":
        return units.seconds(value)
    if unit == "bytes":
        return units.bytes_(value)
    if unit == "ratio":
        return units.ratio(value)
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def signed_amount(value: float, unit: str) -> str:
    """A change in its unit."""
    if unit == "ratio":
        return f"{value * 100:+.0f} points"
    sign = "-" if value < 0 else "+"
    return sign + amount(abs(value), unit)
