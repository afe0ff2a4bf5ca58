"""The tokens of an expression: names, numbers, texts and signs, each with its column."""

import re
from typing import NamedTuple

from sluicegate.streams.expressions.faults import ExpressionError

MAX_CHARACTERS = 4096

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_TOKEN = re.compile(
    rf"""(?P<space>[ \t\r\n\f]+|//[^\n]*)
    |(?P<quoted>[rR]?(?:\"\"\"|'''|"|'))
    |(?P<bytes>(?:[bB][rR]?|[rR][bB])["'])
    |(?P<float>(?:[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?))
    |(?P<int>0x[0-9a-fA-F]+|[0-9]+)(?P<unsigned>[uU])?
    |(?P<name>{_NAME})
    |(?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%!<>?:.,()\[\]{{}}])
    |(?P<escaped>`[A-Za-z0-9_.\-/ ]+`)""",
    re.VERBOSE,
)
_ESCAPE = re.compile(
    r"\\(?:(?P<plain>[abfnrtv\\?\"'`])|x(?P<x>[0-9a-fA-F]{2})|X(?P<X>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})"
    r"|U(?P<U>[0-9a-fA-F]{8})|(?P<octal>[0-3][0-7]{2}))"
)
_PLAIN = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_HINTS = {"=": "write == to compare", "&": "write && for `and`", "|": "write || for `or`", ";": "one expression only"}


class Token(NamedTuple):
    """`kind` is name, escaped, sign, int, float, text or end; `value` is the text of a text without quotes."""

    kind: str
    value: str
    column: int


def tokens(text: str) -> list[Token]:
    """All tokens of the text and one of the kind `end`. Raises ExpressionError."""
    if len(text) > MAX_CHARACTERS:
        raise ExpressionError(1, f"has {len(text)} characters; at most {MAX_CHARACTERS} are allowed")
    words: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            hint = _HINTS.get(text[at])
            raise ExpressionError(at + 1, f"unexpected {_shown(text[at])}{f'; {hint}' if hint else ''}")
        kind, start, at = str(match.lastgroup), at, match.end()
        if kind == "quoted":
            value, at = _quoted(text, start, at, match.group())
            words.append(Token("text", value, start + 1))
        elif kind == "bytes":
            raise ExpressionError(start + 1, "bytes are not supported; write a text")
        elif kind == "unsigned":
            raise ExpressionError(start + 1, f"unsigned numbers are not supported; write {match.group('int')}")
        elif kind != "space":
            words.append(Token(kind, match.group(), start + 1))
    return [*words, Token("end", "", len(text) + 1)]


def _shown(character: str) -> str:
    return f"'{character}'" if character.isprintable() else f"the character U+{ord(character):04X}"


def _quoted(text: str, start: int, at: int, opening: str) -> tuple[str, int]:
    """The value of the text literal whose quote ends at `at`, and the position after its closing quote."""
    raw, quote = opening[0] in "rR", opening.lstrip("rR")
    parts: list[str] = []
    while not text.startswith(quote, at):
        if at >= len(text) or (len(quote) == 1 and text[at] in "\r\n"):
            raise ExpressionError(start + 1, f"the text that begins here has no closing {quote}")
        if text[at] == "\\" and not raw:
            value, at = _unescaped(text, at)
            parts.append(value)
            continue
        parts.append(text[at])

        at += 1
    value = "".join(parts)
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise ExpressionError(start + 1, "the text holds half of a surrogate pair")
    return value, at + len(quote)


def _unescaped(text: str, at: int) -> tuple[str, int]:
    match = _ESCAPE.match(text, at)
    if match is None:
        raise ExpressionError(
            at + 1, f"\\{text[at + 1 : at + 2]} is not an escape sequence; write \\\\ for a backslash"
        )
    kind, digits = str(match.lastgroup), match.group(str(match.lastgroup))
    if kind == "plain":
        return _PLAIN.get(digits, digits), match.end()
    number = int(digits, 8 if kind == "octal" else 16)
    if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
        raise ExpressionError(at + 1, f"{match.group()} is not a character")
    return chr(number), match.end()
