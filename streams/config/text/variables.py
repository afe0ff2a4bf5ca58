"""`${NAME}`, `${NAME:-default}` and `${file:/path}` inside one scalar. `$${` is a literal `${`.

Inside a URL, a value is percent-encoded where it stands for a user, a password, a database or an option. Otherwise a
piece of a password could be taken for a host.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

LARGEST_FILE = 64 * 1024

_TOKEN = re.compile(r"\$\$\{|\$\{(?P<inside>[^}]*)(?P<end>\}?)")
_NAME = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(:-(?P<default>.*))?", re.DOTALL)
FORMS = "write ${NAME}, ${NAME:-default} or ${file:/path}"


class NotAVariable(ValueError):
    """Text that begins with `${` and has none of the three forms."""


class WrongInUrl(ValueError):
    """A value that its place in a URL does not allow. `what` and `hint` do not hold the value."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


@dataclass(frozen=True, slots=True)
class Substituted:
    """`text` is the text after substitution. `used`: there was a variable. `whole`: there was nothing else. `unset`:
    the variables without a value."""

    text: str
    used: bool
    whole: bool
    unset: tuple[str, ...]


def substitute(text: str, environ: Mapping[str, str], folder: Path, is_url: bool = False) -> Substituted:
    """Relative `${file:}` paths start at `folder`; one line end at the end of a file is dropped. Raises NotAVariable,
    and WrongInUrl."""
    unset: list[str] = []
    names = 0
    whole = False

    def value(match: re.Match[str]) -> str:
        nonlocal names, whole
        if match[0] == "$${":
            return "${"
        names += 1
        whole = match.span() == (0, len(text))
        content = _value(match, environ, folder)
        if content is None:
            unset.append(match["inside"])
            return match[0]
        return _encoded(text, match, content) if is_url and not whole else content

    done = _TOKEN.sub(value, text)
    return Substituted(done, names > 0, whole, tuple(unset))


def _encoded(text: str, match: re.Match[str], value: str) -> str:
    """The value in the encoding of its place in a URL. The text around it, with each variable as one word, shows the
    place. A text whose variable holds the scheme is left as it is."""
    written = _TOKEN.sub(lambda token: "x" * len(token[0]), text)
    begin = written.find("://") + 3
    if begin < 3 or match.start() < begin or written.startswith("memory:"):
        return value
    if written.startswith("sqlite:"):
        return quote(value)
    end = next((at for at in range(begin, len(written)) if written[at] in "/?#"), len(written))
    sign, query = written.rfind("@", begin, end), written.find("?", begin)
    if match.start() < sign:
        if ":" in value and match.span() == (begin, sign):
            raise WrongInUrl(*_misplaced(match, "user and password", "write ${USER}:${PASSWORD}@, two variables"))
    elif match.start() < end:
        if re.search(r"[@/?#\s]", value):
            raise WrongInUrl(*_misplaced(match, "the host", WHOLE))
        return value
    elif 0 <= query < match.start():
        if written[match.start() - 1] != "=":
            raise WrongInUrl(*_misplaced(match, "options", "write option=${NAME}, a variable for each value"))
        return quote(value, safe="/:,")
    return quote(value, safe="")


WHOLE = "write the whole URL as one variable, or ${USER}:${PASSWORD}@${HOST}/${DATABASE}, one for each part"


def _misplaced(match: re.Match[str], place: str, hint: str) -> tuple[str, str]:
    name = match["inside"].partition(":-")[0]
    return f"${{{name}}} stands for {place} and holds more than one part of a URL", hint


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
