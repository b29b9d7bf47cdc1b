"""What a scraper says of the encodings it takes (RFC 9110, 12.5.3)."""

import re
from functools import lru_cache

_REMEMBERED = 64  # a scraper says the same each time
_QUALITY = re.compile(r"q\s*=\s*(0(\.\d{0,3})?|1(\.0{0,3})?)")


@lru_cache(_REMEMBERED)
def accepts_gzip(header: str) -> bool:
    """Whether Accept-Encoding lets us zip the answer, and does not prefer it plain."""
    qualities = dict(_coding(part) for part in header.lower().split(","))
    zipped = qualities.get("gzip", qualities.get("*", 0.0))
    return zipped > 0 and zipped >= qualities.get("identity", 0.0)


def _coding(part: str) -> tuple[str, float]:
    name, _, quality = (piece.strip() for piece in part.partition(";"))
    return name, _quality(quality)


def _quality(text: str) -> float:
    """1 where none is given; 0 where it is none, because plain text is never wrong."""
    found = _QUALITY.fullmatch(text)
    return float(found.group(1)) if found else float(not text)
