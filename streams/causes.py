"""Describes an exception of the user's code: its message, and the line that raised it.

Dead letters have the unchanged message. Log lines must have no part of the record, so `Cause.shown` replaces words of
the message by `<value>`: each word that occurs in a value of the record's key, value or headers, and each word that may
be such a part in another spelling (a word with digits, a number of more than three digits, an escape sequence). Names
of fields and the words of databases' errors stay, because the message would be meaningless without them. A value that
the handler itself transformed into other plain letters cannot be recognized. Handlers, reducers and codecs all use
this.
"""

import os
import re
import sys
import sysconfig
import traceback
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import TracebackType
from typing import Literal, NamedTuple

import msgspec

LONGEST = 300  # characters of a message that are kept
LONGEST_READ = 2_000  # characters of a message that are read
MASK = "<value>"
CodeOrigin = Literal["user", "installed", "library", "ours"]

_ESCAPE = r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_WORD = re.compile(rf"(?:{_ESCAPE}|(?<=\d)[.,](?=\d)|[^\W_]|[^\x00-\x7f])+")
_REPEATED = re.compile(rf"{MASK}(?:[^\w\s]?{MASK})+")
_IN_REPR = re.compile(rf"{_ESCAPE}|\\.", re.DOTALL)
_NAME = re.compile(r"[^\W\d][\w.$-]*")
_JSON_NAME = re.compile(rf'"{_NAME.pattern}"\s*:')
_OF_DATABASES = frozenset(
    _WORD.findall(
        "alter and as by check column conflict constraint create database default delete distinct do does drop "
        "duplicate entry error exist exists fail failed for foreign from group in index insert into is join key left "
        "limit named no not null of on or order primary range relation returning row select set such syntax table "
        "type unique unknown update using value values violates where with"
    )
)
_HERE = os.path.dirname(os.path.abspath(__file__))
_OURS = tuple(os.path.join(os.path.dirname(_HERE), name) for name in ("streams", "connectors", "schemas"))
_LIBRARY = tuple({os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")})


class Frame(NamedTuple):
    """One call of a traceback."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{short(self.file)}:{self.line} in {self.function}"


@dataclass(frozen=True, slots=True)
class Cause:
    """`text` is `ValueError: message` in one line. `where` is the innermost frame of the user's code; empty if there is
    none. `payload` has the arguments of the call."""

    error: BaseException
    text: str
    where: str
    payload: tuple[object, ...]

    @property
    def shown(self) -> str:
        """The text for log lines, without parts of the payload."""
        kind, separator, text = self.text.partition(": ")
        try:
            return kind + separator + masked(text, self.payload)
        except Exception:  # `repr` of a value of the user's type may raise
            return f"{kind}: {MASK}"

    def placed(self, text: str) -> str:
        """The text, followed by `where` unless it is empty."""
        return f"{text} ({self.where})" if self.where else text


def cause(error: BaseException, *payload: object) -> Cause:
    """Describe an exception that the user's code raised when it was called with this payload."""
    kind, text = type(error).__name__, message(error)
    frames = users(error)
    return Cause(error, f"{kind}: {text}" if text else kind, str(frames[-1]) if frames else "", payload)


def message(error: BaseException) -> str:
    """One line of at most LONGEST characters, without control characters."""
    try:
        text = str(error)
    except Exception:
        return ""
    line = " ".join("".join(character if character.isprintable() else " " for character in text[:LONGEST_READ]).split())
    return line if len(line) <= LONGEST else line[: LONGEST - 3] + "..."


def masked(whole: str, payload: tuple[object, ...]) -> str:
    """The message with MASK for each word that occurs in the payload."""
    content = " ".join(text for value in payload for text in _texts(value))
    words = {word for word in _WORD.findall(content) if len(word) < LONGEST_READ}
    cut = len(whole) == LONGEST and whole.endswith("...")

    def shown(match: re.Match[str]) -> str:
        partial = cut and match.end() == LONGEST - 3
        return MASK if partial or _hidden(_same(match.group()), content, words) else match.group()

    return _REPEATED.sub(MASK, _WORD.sub(shown, whole))


def _hidden(word: str, content: str, words: set[str]) -> bool:
    if word in _OF_DATABASES:
        return False
    if "\\" in word or word in words or (len(word) > 3 and word in content):
        return True
    if any(character.isnumeric() for character in word):
        return not word.isdecimal() or len(word) > 3 or word in content
    parts = (word[begin:end] for begin in range(len(word)) for end in range(begin + 3, len(word) + 1))
    return any(part in words for part in parts)


def _same(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _texts(value: object) -> Iterator[str]:
    """The texts of a value, including nested ones, without the names of fields. A key that cannot be such a name is a
    value."""
    if isinstance(value, bytes | bytearray):
        yield _same(_JSON_NAME.sub(" ", value.decode("utf-8", "replace")))
    elif isinstance(value, str):
        yield _same(value)
    elif isinstance(value, Mapping):
        yield from (text for key in value if not _is_name(key) for text in _texts(key))
        yield from (text for item in value.values() for text in _texts(item))
    elif isinstance(value, list | tuple | set | frozenset):
        yield from (text for item in value for text in _texts(item))
    elif isinstance(value, msgspec.Struct):
        yield from (text for name in value.__struct_fields__ for text in _texts(getattr(value, name)))
    elif is_dataclass(value):
        yield from (text for field in fields(value) for text in _texts(getattr(value, field.name)))
    else:
        yield _same(_IN_REPR.sub(" ", repr(value)))


def _is_name(key: object) -> bool:
    return isinstance(key, str) and _NAME.fullmatch(key) is not None


def users(error: BaseException) -> list[Frame]:
    """The frames of the user's code, outermost first. Frames of Sluicegate and the standard library are left out.
    Frames of installed packages are left out, too, unless the user's code is itself installed. If the error has no such
    frame, its cause is examined."""
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        if frames := _users(at.__traceback__):
            return frames
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    return []


def _users(trace: TracebackType | None) -> list[Frame]:
    walked = [(frame.f_code, line) for frame, line in traceback.walk_tb(trace)]
    frames = [Frame(code.co_filename, line, code.co_qualname) for code, line in walked]
    own = [frame for frame in frames if origin(frame.file) == "user"]
    if own:
        return own
    installed = [frame for frame in frames if origin(frame.file) == "installed"]
    return [frame for frame in installed if _package(frame.file) == _package(installed[0].file)]


@cache
def origin(file: str) -> CodeOrigin:
    """The owner of the code in a file."""
    if file.startswith("<"):
        return "library"
    path = os.path.abspath(file)
    if _below(path, _OURS):
        return "ours"
    if _package(path):
        return "installed"
    return "library" if _below(os.path.realpath(path), _LIBRARY) else "user"


def _below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path.startswith(folder + os.sep) for folder in folders)


def _package(file: str) -> str:
    """The folder or file of an installed package; empty for any other file."""
    parts = os.path.abspath(file).split(os.sep)
    for at, part in enumerate(parts[:-1]):
        if part in ("site-packages", "dist-packages"):
            return os.sep.join(parts[: at + 2])
    return ""


def short(file: str) -> str:
    """The path relative to the entry of `sys.path` that holds it."""
    path = os.path.abspath(file)
    folders = [os.path.abspath(folder) for folder in sys.path]
    inside = max((folder for folder in folders if path.startswith(folder.rstrip(os.sep) + os.sep)), key=len, default="")
    return os.path.relpath(path, inside) if inside else path
