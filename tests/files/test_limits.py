"""Files and folders without end: what is read of them is not."""

import json
from pathlib import Path

import pytest

from traceml.files import Folder, JsonError, TooManyError, limits, parse_json


def test_a_folder_of_more_files_than_anybody_has_is_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "NAMES", 10)
    for number in range(11):
        (tmp_path / f"{number}").touch()
    with Folder.at(tmp_path) as folder:
        with pytest.raises(TooManyError, match="more than 10 files"):
            folder.names()
        assert folder.folders("", lambda _: True) == []
        folder.remove("10")
        assert len(folder.names()) == 10


def test_values_are_counted_before_they_are_made() -> None:
    assert parse_json(b'{"a": [1, 2, {"b": null}]}', 8) == {"a": [1, 2, {"b": None}]}
    with pytest.raises(JsonError, match="holds more than 6 values"):
        parse_json(b'{"a": [1, 2, {"b": null}]}', 6)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b"\xff", "is no text"),
        (b"[" * 100_000, "is nested too deeply"),
        (b"9" * 10_000, "too many digits"),
        (b"[NaN]", "it holds NaN"),
        (b"[-Infinity]", "it holds -Infinity"),
        (b"{", "is no JSON: "),
    ],
)
def test_what_is_no_json_fails_in_one_way(data: bytes, reason: str) -> None:
    with pytest.raises(JsonError, match=reason):
        parse_json(data, 10**6)


def test_constants_are_numbers_where_they_are_wanted() -> None:
    assert parse_json(json.dumps([float("inf")]).encode(), 10, constants=True) == [float("inf")]
