"""What a message tells a person to do: a near word, and a command with the user's own file."""

import difflib
import shlex
from collections.abc import Mapping, Sequence

_files = ["FILE"]
"""The file that the command of this process has; the last one counts."""


def did_you_mean(wrong: str, known: Sequence[str], other_names: Mapping[str, str] | None = None) -> str:
    """A hint: the nearest known word, or all of them when they are few. `other_names` are words that others have for
    known ones."""
    swapped = [word for word in known if sorted(word) == sorted(wrong)]
    same = [word for name, word in (other_names or {}).items() if name == wrong.lower()]
    near = same or swapped or difflib.get_close_matches(wrong, known, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]}?"
    if len(known) <= 20:
        return f"known here: {', '.join(known)}"
    return "schemas/documents/sluicegate.schema.json lists the known ones"


def name_file(file: str) -> None:
    """Commands in messages of this process name this file from now on."""
    _files.append(file)


def named_file() -> str:
    """The file that `command` names."""
    return _files[-1]


def command(words: str) -> str:
    """`command("topics FILE --create")` is the whole command with the file of this process."""
    return f"`sluicegate {words.replace('FILE', shlex.quote(named_file()), 1)}`"
