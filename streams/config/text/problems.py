"""The problems of a file with their positions: one value and its one line of text."""

from collections.abc import Iterable
from dataclasses import dataclass

Path = tuple[str | int, ...]
"""Keys and list indexes from the top of the file."""

LONGEST_KEY = 200


@dataclass(frozen=True, slots=True)
class Problem:
    """`key` is a dotted path ("" for the file as a whole); `line` and `column` count from 1. No value of the file is in
    it. As text it is one line."""

    file: str
    line: int
    column: int
    key: str
    message: str
    hint: str

    def __str__(self) -> str:
        return printable(f"{self._where()}: {self.message}; {self.hint}")

    def as_warning(self) -> str:
        return printable(f"{self._where()}: warning: {self.message}; {self.hint}")

    def _where(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.key or 'file'}"


@dataclass(frozen=True, slots=True)
class FileFinding:
    """A problem with a path, before its position is known. It is void when the value at one of `needs` is unknown.
    `column` is a position in the text at `path`, from 1; 0: the position of the key counts."""

    path: Path
    message: str
    hint: str
    needs: tuple[Path, ...] = ()
    column: int = 0


def dotted(path: Path) -> str:
    """`("agents", "a", "from", 1)` is `agents.a.from[1]`. Characters that cannot be printed are escaped, so that a
    problem stays one line."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + printable(part)
    return text if len(text) <= LONGEST_KEY else text[:LONGEST_KEY] + "..."


def printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def sort(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems by position, each once."""
    return tuple(sorted(set(problems), key=lambda p: (p.line, p.column, p.key, p.message)))
