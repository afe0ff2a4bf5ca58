"""One YAML file as plain values, with the position of every key. Nothing in the file is executed or constructed."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath

import yaml

from sluicegate.streams.config.text import scalars, variables
from sluicegate.streams.config.text.problems import FileFinding, Path

LARGEST = 1024 * 1024
MOST_ALIASES = 100
MOST_VALUES = 20_000
DEEPEST = 32
STORE: Path = ("store",)
"""The key that holds a URL with a password."""
_OF_EXPRESSIONS = re.compile(r"(?:^|[\s{,])(?:where|let|having|until|select)[ ]*:")

LineColumn = tuple[int, int]
"""Line and column, from 1."""


class Unreadable(Exception):
    """The file is not a YAML document that Sluicegate accepts. Reading stopped at `place`."""

    def __init__(self, message: str, hint: str, place: LineColumn = (1, 1)) -> None:
        super().__init__(message)
        self.message, self.hint, self.place = message, hint, place


class _Tag(Unreadable):
    """A word that begins with `!`."""


@dataclass(slots=True)
class FileDocument:
    """`tree` consists of dicts, lists and scalars. `places` holds the position of every key and list item. `texts`
    holds the position of every value that is on one line of the file and unchanged. `findings` are the problems found
    so far, `unset` the variables without a value, `substituted` the paths that had a variable. `files` holds for each
    key that comes from another file, with all keys below it, the name of that file."""

    tree: object = None
    places: dict[Path, LineColumn] = field(default_factory=dict)
    texts: dict[Path, LineColumn] = field(default_factory=dict)
    findings: list[tuple[FileFinding, LineColumn]] = field(default_factory=list)
    unset: list[FileFinding] = field(default_factory=list)
    substituted: set[Path] = field(default_factory=set)
    files: dict[Path, str] = field(default_factory=dict)


class _Composer(yaml.SafeLoader):
    """Composes nodes only. Refuses tags, deep nesting and many aliases before they cost memory or time."""

    depth = 0
    aliases = 0
    nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        place = _place(event.start_mark)
        self.depth += 1
        self.nodes += 1
        if self.nodes > 2 * MOST_VALUES:  # keys are nodes, too
            raise Unreadable(f"has more than {MOST_VALUES} values", "split it: one file is one app", place)
        if isinstance(event, yaml.AliasEvent):
            self.aliases += 1
        elif getattr(event, "tag", None) is not None:
            raise _Tag(
                "a tag is not allowed", "remove the word that begins with '!'; quote text that must stay text", place
            )
        if self.depth > DEEPEST:
            raise Unreadable(f"nested deeper than {DEEPEST} levels", "write it flatter", place)
        if self.aliases > MOST_ALIASES:
            raise Unreadable(f"more than {MOST_ALIASES} aliases", "write the repeated parts out", place)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def read(path: FilePath) -> str:
    """The text of the file. Raises Unreadable."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its name is not valid"
        raise Unreadable(f"cannot be read ({reason})", "give the path of an existing YAML file") from None
    if len(content) > LARGEST:
        raise Unreadable("is larger than 1 MiB", "make it smaller")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = (content[: error.start].count(b"\n") + 1, 1)
        raise Unreadable("is not UTF-8", "save it as UTF-8", place) from None


def parse(text: str, environ: Mapping[str, str], folder: FilePath) -> FileDocument:
    """Compose and substitute. Raises Unreadable for errors that end reading; the others are in `findings`."""
    document = FileDocument()
    node = _compose(text)
    if node is not None:
        document.tree = _Conversion(document, environ, folder).value(node, ())
    return document


def _compose(text: str) -> yaml.Node | None:
    try:
        loader = _Composer(text)
        try:
            return loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as error:
        place = (text[: error.position].count("\n") + 1, 1)
        raise Unreadable("has a character that YAML does not allow", "remove it", place) from None
    except _Tag as error:
        if not _is_in_an_expression(text, error.place[0]):
            raise
        what = "YAML takes the '!' at the beginning for a tag"
        raise Unreadable(what, "quote the expression, such as where: '!paid'", error.place) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join((error.problem or error.context or "cannot be parsed").split())
        hint = "correct the syntax here or just above"
        if _is_in_an_expression(text, _place(mark)[0]):
            hint = f"quote the expression, or {hint}"
        raise Unreadable(f"is not valid YAML ({problem})", hint, _place(mark)) from None


def _is_in_an_expression(text: str, line: int) -> bool:
    """Whether the line belongs to a key whose values are expressions, directly or below it."""
    depth: int | None = None
    for text_line in reversed(text.splitlines()[:line]):
        indent = len(text_line) - len(text_line.lstrip())
        if text_line.strip() and (depth is None or indent < depth):
            depth = indent
            if _OF_EXPRESSIONS.search(text_line):
                return True
    return False


def _place(mark: yaml.Mark | None) -> LineColumn:
    return (1, 1) if mark is None else (mark.line + 1, mark.column + 1)


class _Conversion:
    """Turns nodes into values. Aliases are expanded, so the number of values is bounded too."""

    def __init__(self, document: FileDocument, environ: Mapping[str, str], folder: FilePath) -> None:
        self._document, self._environ, self._folder = document, environ, folder
        self._values = 0

    def value(self, node: yaml.Node, path: Path) -> object:
        self._values += 1
        if self._values > MOST_VALUES or len(path) > DEEPEST:
            raise Unreadable(
                "has too many values when its aliases are written out", "use fewer aliases", _place(node.start_mark)
            )
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._item(child, (*path, i)) for i, child in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        return self._scalar(node, path)

    def _item(self, node: yaml.Node, path: Path) -> object:
        self._document.places.setdefault(path, _place(node.start_mark))
        return self.value(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        result: dict[str, object] = {}
        for key_node, value_node in node.value:
            place = _place(key_node.start_mark)
            if not isinstance(key_node, yaml.ScalarNode):
                self._wrong(path, "a key must be text", "write a plain word as the key", place)
                continue
            key = key_node.value
            if key == "<<" and key_node.style is None:
                hint = "write the keys out; an anchor and an alias for a whole value work (&name, *name)"
                self._wrong(path, "has a merge key of YAML (<<), which is not supported", hint, place)
                continue
            inside = (*path, key)
            if key in result:
                first = self._document.places[inside][0]
                self._wrong(inside, f"is written twice (first in line {first})", "keep one of them", place)
                continue
            self._document.places[inside] = place
            result[key] = self.value(value_node, inside)
        return result

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> object:
        text = node.value
        if "${" not in text:
            quoted = 0 if node.style is None else 1
            if node.end_mark.index - node.start_mark.index == len(text) + 2 * quoted:
                line, column = _place(node.start_mark)
                self._document.texts[path] = line, column + quoted
            return scalars.plain(text) if node.style is None else text
        place = self._document.places.get(path, _place(node.start_mark))
        try:
            done = variables.substitute(text, self._environ, self._folder, is_url=path == STORE)
        except variables.NotAVariable:
            self._wrong(path, "has a '${' that begins no variable", f"{variables.FORMS}; a literal one is $${{", place)
            return scalars.Unknown(text)
        except variables.WrongInUrl as error:
            self._wrong(path, error.what, error.hint, place)
            return scalars.Unknown(text)
        if done.used:
            self._document.substituted.add(path)
        for name in done.unset:
            self._document.unset.append(_unset(path, name))
        if done.unset:
            return scalars.Unknown(text)
        return scalars.plain(done.text) if done.whole or (node.style is None and not done.used) else done.text

    def _wrong(self, path: Path, message: str, hint: str, place: LineColumn) -> None:
        self._document.findings.append((FileFinding(path, message, hint), place))


def _unset(path: Path, name: str) -> FileFinding:
    if name.startswith("file:"):
        return FileFinding(
            path, f"${{{name}}} cannot be read", "make the file (at most 64 KiB of UTF-8), or correct its path"
        )
    return FileFinding(path, f"${{{name}}} is not set", f"set {name}, or write ${{{name}:-default}}")
