import pytest

from traceml.sidecar.encoding import accepts_gzip


@pytest.mark.parametrize(
    "header",
    ["gzip", "GZIP", "gzip, br", "deflate;q=0.5 , gzip ; q=0.1", "gzip;q=1.000", "*", "*;q=0.5",
     "identity;q=0.5, gzip", "identity, gzip", "*;q=0, gzip", "br;q=0, *"],
)  # fmt: skip
def test_who_takes_gzip_gets_it(header: str) -> None:
    assert accepts_gzip(header)


@pytest.mark.parametrize(
    "header",
    ["", "identity", "br", "gzip;q=0", "gzip; q=0.000", "GZIP;Q=0", "gzip;q=0, *", "*;q=0",
     "identity, gzip;q=0.5", "not-gzip", "gzipped", "xgzip;q=1"],
)  # fmt: skip
def test_who_does_not_or_would_rather_not_gets_it_plain(header: str) -> None:
    assert not accepts_gzip(header)


@pytest.mark.parametrize("quality", ["q=", "q=much", "q=nan", "q=-1", "q=2", "q=0.0001", "level=9"])
def test_a_quality_that_is_none_is_no_yes(quality: str) -> None:
    assert not accepts_gzip(f"gzip;{quality}")
