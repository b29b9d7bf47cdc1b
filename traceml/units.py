"""Figures for people: three significant digits, and the unit that fits."""

_SPANS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def seconds(value: float | None) -> str:
    """A time, in the unit in which it reads best."""
    if value is None:
        return "-"
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if value * factor >= 0.9995:
            return f"{_digits(value * factor)} {unit}"
    return "0" if value < 5e-10 else f"{value * 1e9:.0f} ns"


def duration(value: float) -> str:
    """How long something went on, as people say it: in two units from a minute on."""
    if value < 60:
        return seconds(value)
    for size, unit, part, smaller in _SPANS:
        if value >= size:
            whole, rest = divmod(round(value / part) * part, size)
            more = f" {rest / part:.0f} {smaller}" if rest else ""
            return f"{whole:.0f} {unit}{more}"
    raise AssertionError("unreachable: the last span is a minute")


def bytes_(value: float | None) -> str:
    """An amount of memory."""
    if value is None:
        return "-"
    for factor, unit in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if value >= factor:
            return f"{_digits(value / factor)} {unit}"
    return f"{value:.0f} B"


def hertz(value: float) -> str:
    """A clock of a processor."""
    return f"{_digits(value / 1e9)} GHz" if value >= 0.9995e9 else f"{value / 1e6:.0f} MHz"


def ratio(value: float | None) -> str:
    """A ratio as a percentage; from tenfold on as a multiple."""
    if value is None:
        return "-"
    return f"{value * 100:.0f} %" if value < 10 else f"{value:.0f} x"


def _digits(value: float) -> str:
    return (
        f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
    )
