"""Hints in messages: a similar word, and a command with the user's own file."""

import difflib
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence

_files = ["FILE"]
"""The file in the commands of this process; the last one counts."""


def did_you_mean(wrong: str, known: Sequence[str], other_names: Mapping[str, str] | None = None) -> str:
    """A hint: the nearest known word, or all of them if they are few. `other_names` maps words of other products to
    known ones."""
    swapped = [word for word in known if sorted(word) == sorted(wrong)]
    same = [word for name, word in (other_names or {}).items() if name == wrong.lower()]
    near = same or swapped or difflib.get_close_matches(wrong, known, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]}?"
    if len(known) <= 20:
        return f"known here: {', '.join(known)}"
    return "`sluicegate schema` lists the known ones"


def misspelled(topic: str, known: Collection[str]) -> str:
    """The known topic of which this one may be a misspelling. Empty if it is known, or if none is near enough: the
    names differ in separators or in capitals, or in one letter of a word of four letters or more."""
    if topic in known:
        return ""
    return next((name for name in sorted(known) if _letters(name) == _letters(topic) or _one_letter(topic, name)), "")


def with_near(topics: Iterable[str], known: Collection[str]) -> str:
    """The topics as a list, each with the known topic of which it may be a misspelling."""
    near = ((topic, misspelled(topic, known)) for topic in topics)
    return ", ".join(f"{topic} (did you mean {other}?)" if other else topic for topic, other in near)


def _letters(topic: str) -> str:
    return "".join(_words(topic)).lower()


def _words(topic: str) -> list[str]:
    return re.split(r"[-_.]", topic)


def _one_letter(topic: str, other: str) -> bool:
    """Whether one word differs: a letter is missing, added or replaced, or two letters are swapped. A digit
    distinguishes topics."""
    words, others = _words(topic), _words(other)
    pairs = [pair for pair in zip(words, others, strict=False) if pair[0] != pair[1]]
    if len(words) != len(others) or len(pairs) != 1 or min(map(len, pairs[0])) < 4:
        return False
    one, another = pairs[0]
    steps = difflib.SequenceMatcher(None, one, another, autojunk=False).get_opcodes()
    changes = [(one[a:b], another[c:d]) for tag, a, b, c, d in steps if tag != "equal"]
    one_change = len(changes) == 1 and max(map(len, changes[0])) == 1
    return all(map(str.isalpha, map("".join, changes))) and (one_change or sorted(one) == sorted(another))


def name_file(file: str) -> None:
    """Commands in messages of this process name this file from now on."""
    _files.append(file)


def named_file() -> str:
    """The file that `command` names."""
    return _files[-1]


def command(words: str) -> str:
    """`command("topics FILE --create")` is the whole command with the file of this process."""
    return f"`sluicegate {words.replace('FILE', shlex.quote(named_file()), 1)}`"
