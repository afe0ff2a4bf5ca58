"""msgspec raises UnicodeDecodeError, which is no error of its own, for a text that is not UTF-8: who catches the one
catches the other."""

import ast
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parents[3]
PACKAGES = ("streams", "connectors", "schemas")
MSGSPEC = {"msgspec.DecodeError", "msgspec.MsgspecError"}
BOTH = {"UnicodeDecodeError", "ValueError", "UNREADABLE", "Exception"}
NO_BYTES = {
    ("schemas/protobuf.py", "raise"),  # the error of this module goes on
    ("streams/handlers/types.py", "convert"),  # values that were decoded become the user's types
}


def narrow(source: str) -> Iterator[ast.Try]:
    """The try statements that catch errors of msgspec, and not a text that is not UTF-8."""
    for node in ast.walk(ast.parse(source)):
        caught = [name for handler in node.handlers for name in names(handler)] if isinstance(node, ast.Try) else []
        if isinstance(node, ast.Try) and MSGSPEC.intersection(caught) and not BOTH.intersection(caught):
            yield node


def names(handler: ast.ExceptHandler) -> list[str]:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return [ast.unparse(kind).lstrip("*") for kind in kinds if kind is not None]


def test_who_catches_what_msgspec_raises_catches_a_text_that_is_not_utf8() -> None:
    problems = [
        f"{path.relative_to(HERE)}:{node.lineno}"
        for package in PACKAGES
        for path in sorted((HERE / package).rglob("*.py"))
        for node in narrow(path.read_text(encoding="utf-8"))
        if not any(str(path.relative_to(HERE)) == file and word in ast.unparse(node) for file, word in NO_BYTES)
    ]
    assert problems == []


def test_such_a_place_is_seen() -> None:
    wrong = "try:\n    decode(value)\nexcept (msgspec.MsgspecError, RecursionError):\n    pass\n"
    assert len(list(narrow(wrong))) == 1
    assert list(narrow(wrong.replace("RecursionError", "UnicodeDecodeError"))) == []
