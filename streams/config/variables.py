"""`${NAME}`, `${NAME:-default}` and `${file:/path}` inside one scalar. `$${` is a literal `${`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LARGEST_FILE = 64 * 1024

_TOKEN = re.compile(r"\$\$\{|\$\{(?P<inside>[^}]*)(?P<end>\}?)")
_NAME = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(:-(?P<default>.*))?", re.DOTALL)
FORMS = "write ${NAME}, ${NAME:-default} or ${file:/path}"


class NotAVariable(ValueError):
    """`${` begins text that has none of the three forms."""


@dataclass(frozen=True, slots=True)
class Substituted:
    """`text` after substitution. `used`: there was a variable. `whole`: there was nothing else. `unset`: the variables
    without a value."""

    text: str
    used: bool
    whole: bool
    unset: tuple[str, ...]


def substitute(text: str, environ: Mapping[str, str], folder: Path) -> Substituted:
    """Relative `${file:}` paths start at `folder`; one line end at the end of a file is dropped. Raises
    NotAVariable."""
    unset: list[str] = []
    names = 0
    whole = False

    def value(match: re.Match[str]) -> str:
        nonlocal names, whole
        if match[0] == "$${":
            return "${"
        names += 1
        whole = match.span() == (0, len(text))
        found = _value(match, environ, folder)
        if found is None:
            unset.append(match["inside"])
            return match[0]
        return found

    done = _TOKEN.sub(value, text)
    return Substituted(done, names > 0, whole, tuple(unset))


def _value(match: re.Match[str], environ: Mapping[str, str], folder: Path) -> str | None:
    if not match["end"]:
        raise NotAVariable
    if match["inside"].startswith("file:"):
        return _read(folder / match["inside"].removeprefix("file:"))
    form = _NAME.fullmatch(match["inside"])
    if form is None:
        raise NotAVariable
    if form["default"] is not None:
        return environ.get(form["name"]) or form["default"]
    return environ.get(form["name"])


def _read(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            return None
        text = content.decode()
    except (OSError, ValueError):
        return None
    return text.removesuffix("\n").removesuffix("\r")
