"""JSON of a stranger: not more values than there can be, and no way to fail but one."""

import json
from typing import Any, NoReturn


class JsonError(ValueError):
    """It is no JSON that can be used; the message goes on after "it"."""


def parse_json(data: bytes, most_values: int, *, constants: bool = False) -> Any:
    """What it says; with `constants`, NaN and the infinities are numbers."""
    if not data.strip():
        raise JsonError("is empty")
    # Every value but the first stands behind one of these, so memory is bounded before it is used.
    if sum(map(data.count, (b",", b"[", b"{", b":"))) > most_values:
        raise JsonError(f"holds more than {most_values} values")
    try:
        text = data.decode("utf-8-sig")
        return json.loads(text, parse_constant=None if constants else _refuse)
    except UnicodeDecodeError:
        raise JsonError("is no text, so no JSON") from None
    except RecursionError:
        raise JsonError("is nested too deeply") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise JsonError(f"is no JSON: {error.msg}, {where}") from None
    except JsonError:
        raise
    except ValueError:
        raise JsonError("cannot be read: a number in it has too many digits") from None


def _refuse(constant: str) -> NoReturn:
    raise JsonError(f"cannot be read: it holds {constant}, which is no number in JSON")
