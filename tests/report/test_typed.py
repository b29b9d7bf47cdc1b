from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest

from traceml.report.typed import Amount, Count, ShapeError, plain, read, schema


@dataclass(frozen=True, slots=True)
class Inner:
    """Something inside."""

    count: Count
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outer:
    """Something outside."""

    kind: Literal["a", "b"]
    amount: Annotated[Amount | None, "how much"]
    inner: Inner
    by_name: Mapping[str, Inner]
    mixed: Mapping[str, float | str]
    flag: bool = False


DOCUMENT = {
    "kind": "a",
    "amount": 1.5,
    "inner": {"count": 3, "names": ["x"]},
    "by_name": {"one": {"count": 1, "names": []}},
    "mixed": {"number": 2, "word": "w"},
    "flag": True,
}


def without(key: str, **more: Any) -> dict[str, Any]:
    return {**{name: value for name, value in DOCUMENT.items() if name != key}, **more}


def test_a_document_is_read_and_written_as_it_was() -> None:
    assert plain(read(Outer, DOCUMENT)) == DOCUMENT


def test_what_is_none_is_left_out_and_what_is_absent_is_none() -> None:
    read_again = read(Outer, without("amount"))
    assert read_again.amount is None
    assert "amount" not in plain(read_again)


def test_null_reads_as_absent() -> None:
    assert read(Outer, without("amount", amount=None)).amount is None


def test_what_stands_beside_the_known_keys_is_passed_over() -> None:
    assert read(Outer, {**DOCUMENT, "news": [1]}) == read(Outer, DOCUMENT)


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ([], "it should be an object, and is []"),
        (without("inner"), "inner is missing"),
        (without("kind", kind="c"), "kind should be one of a, b, and is 'c'"),
        (without("amount", amount="much"), "amount should be a number, and is 'much'"),
        (without("amount", amount=True), "amount should be a number, and is True"),
        (without("amount", amount=-1), "amount should be at least 0, and is -1"),
        (without("amount", amount=float("nan")), "amount should be finite, and is nan"),
        (without("amount", amount=10**400), "amount should be finite, and is 1000"),
        (without("inner", inner={"count": 10**400}), "inner.count should be finite"),
        (without("flag", flag=1), "flag should be a boolean, and is 1"),
        (without("inner", inner={"count": 1.5}), "inner.count should be a integer"),
        (without("inner", inner={"count": 1, "names": "x"}), "inner.names should be a list"),
        (without("inner", inner={"count": 1, "names": [1]}), "inner.names[0] should be a string"),
        (without("by_name", by_name=[]), "by_name should be an object"),
        (without("by_name", by_name={"k": {}}), "by_name.k.count is missing"),
        (without("mixed", mixed={"k": []}), "mixed.k should be a string"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(document: Any, complaint: str) -> None:
    with pytest.raises(ShapeError) as caught:
        read(Outer, document)
    assert str(caught.value).startswith(complaint)


def test_what_would_move_a_terminal_s_cursor_is_not_read_as_it_is() -> None:
    inner = read(Inner, {"count": 1, "names": ["\x1b[2J\nover", "\udcff"]})
    assert inner.names == (" over", "?")


def test_a_long_value_is_shown_in_part() -> None:
    with pytest.raises(ShapeError) as caught:
        read(Outer, without("amount", amount="x" * 10_000))
    assert len(str(caught.value)) < 100


def test_the_schema_tells_types_limits_and_what_is_required() -> None:
    made = schema(Outer, "outer")
    assert made["required"] == ["kind", "inner", "by_name", "mixed"]
    assert made["properties"]["amount"] == {
        "type": "number", "minimum": 0, "description": "how much",
    }  # fmt: skip
    assert made["properties"]["kind"] == {"enum": ["a", "b"]}
    assert made["properties"]["mixed"]["additionalProperties"] == {
        "anyOf": [{"type": "number"}, {"type": "string"}]
    }
    assert made["$defs"]["Inner"]["required"] == ["count"]
