"""Text of others, as it may reach a terminal: without what would move, colour or forge."""

import re

# What a terminal takes for a command to itself, with its arguments: ECMA-48, and its 8-bit forms.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f\n]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]?"
)
_KEPT = "\n\t"


def printable(text: str) -> str:
    """Its lines, with escapes left out and `?` for every other character that can't be shown."""
    if text.isprintable():
        return text
    fit = _ESCAPES.sub("", text).encode("utf-8", "replace").decode()
    return "".join(each if each.isprintable() or each in _KEPT else _shown(each) for each in fit)


def one_line(text: str) -> str:
    """The same in a single line: who names a run does not write further lines."""
    return printable(text).replace("\n", " ").replace("\t", " ")


def _shown(character: str) -> str:
    return " " if character.isspace() else "?"
