"""Formats counts and text of unknown origin for messages."""

import re
from typing import Any, TextIO

UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters that steer a terminal or hide or reorder other text: the control characters C0 (but tab and line feed) and
C1, bidirectional and zero-width formatting (Unicode TR 36), all others that are shown as nothing
(Default_Ignorable_Code_Point: fillers, selectors, tags), and surrogates."""
ENDS_A_CELL = re.compile(f"{UNPRINTABLE.pattern[:-1]}\t\n]")


def counted(number: int, noun: str) -> str:
    """`1 record`, `2 records`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def printable(text: str) -> str:
    """The text with each unprintable character replaced by its JSON escape, such as `\\u001b`. JSON text keeps its
    meaning."""
    return text if text.isascii() and text.isprintable() else UNPRINTABLE.sub(_escape, text)


def in_one_line(text: str) -> str:
    """As `printable`, with tabs and line feeds escaped, too: for a cell of a table."""
    return ENDS_A_CELL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


class PrintableText:
    """A text stream that writes printable text to another one. A rich console writes its own control characters: it
    gets the other stream by `rich_proxied_file` and escapes its output itself."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(printable(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)
