"""Checks the document of an App with the checks of a file. Problems have places in the code instead of places in a
file."""

from collections.abc import Mapping
from pathlib import Path as FilePath

import msgspec
import yaml

from sluicegate.streams.app import text
from sluicegate.streams.app.origins import CodePlace
from sluicegate.streams.app.values import DocumentTree
from sluicegate.streams.config import Loaded
from sluicegate.streams.config.loading import judge
from sluicegate.streams.config.text import document
from sluicegate.streams.config.text.document import FileDocument, Unreadable
from sluicegate.streams.config.text.problems import Path, Problem, dotted
from sluicegate.streams.errors import ConfigurationError

CodePlaces = Mapping[Path, CodePlace]
"""The place of each key that has one of its own; () is the place of the app."""


def judged(
    tree: DocumentTree, places: CodePlaces, environ: Mapping[str, str], folder: FilePath, tolerant: bool
) -> Loaded:
    """Same as sluicegate.streams.config.load, for this document. The checks read the document as YAML, so an App and
    its file cannot differ."""
    of_app = places[()]
    try:
        parsed = document.parse(text.as_yaml(tree), environ, folder)
    except (Unreadable, yaml.YAMLError) as error:
        hint = getattr(error, "hint", "write text that YAML can hold")
        return Loaded(None, (Problem(of_app.file, of_app.line, of_app.column, "", str(error), hint),), (), ())
    tests = tree.get("tests")
    paths: list[Path] = []
    for name, steps in tests.items() if isinstance(tests, dict) else ():
        paths.append(("tests", name))
        paths += [("tests", name, number) for number in range(len(steps) if isinstance(steps, list) else 0)]
    known = {**dict.fromkeys(paths, places[()]), **places}
    parsed.texts = {}
    parsed.places = {path: (place.line, place.column) for path, place in known.items()}
    parsed.files = {path: place.file for path, place in known.items()}
    parsed.findings = [(finding, _nearest(parsed, finding.path)) for finding, _ in parsed.findings]
    return judge(parsed, of_app.file, folder, tolerant)


def _nearest(parsed: FileDocument, path: Path) -> document.LineColumn:
    while path not in parsed.places:
        path = path[:-1]
    return parsed.places[path]


def read(source: str, name: str, environ: Mapping[str, str], folder: FilePath) -> tuple[DocumentTree, CodePlaces]:
    """The document of a YAML text, and the places of its keys. Raises ConfigurationError."""
    try:
        parsed = document.parse(source, environ, folder)
    except Unreadable as error:
        raise ConfigurationError(str(Problem(name, *error.place, "", error.message, error.hint))) from error
    if parsed.findings:
        problems = [Problem(name, *place, dotted(f.path), f.message, f.hint) for f, place in parsed.findings]
        raise ConfigurationError("\n".join(map(str, problems)))
    tree = {} if parsed.tree is None else text.of_yaml(source)
    if not isinstance(tree, dict):
        what = Problem(name, 1, 1, "", "is not a mapping", "write `app: NAME` and the other keys at the top")
        raise ConfigurationError(str(what))
    return tree, {path: CodePlace(name, *place) for path, place in {(): (1, 1), **parsed.places}.items()}


def content(path: FilePath) -> str:
    """The text of the file. Raises ConfigurationError."""
    try:
        return document.read(path)
    except Unreadable as error:
        raise ConfigurationError(str(Problem(str(path), *error.place, "", error.message, error.hint))) from error


def canonical(tree: DocumentTree) -> bytes:
    """The document as canonical JSON. Numbers that remember their text in the file count as their values."""
    return msgspec.json.encode(tree, order="deterministic", enc_hook=_number)


def _number(value: object) -> int | float:
    return int(value) if isinstance(value, int) else float(value)  # type: ignore[arg-type]
