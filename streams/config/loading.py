"""Loads a file: a path gives an App, or all problems of the file at once."""

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from sluicegate.streams.agent import App
from sluicegate.streams.cases import Case
from sluicegate.streams.config import build, words
from sluicegate.streams.config.checking import checks, expressions, rules, transport, typed, written
from sluicegate.streams.config.formats import schemas
from sluicegate.streams.config.reference import references
from sluicegate.streams.config.sections import cases, declared, kafka, lookups, registry
from sluicegate.streams.config.sections.models import FileModel
from sluicegate.streams.config.text import document, refusals, secrets
from sluicegate.streams.config.text.document import FileDocument, LineColumn, Unreadable
from sluicegate.streams.config.text.problems import FileFinding, Path, Problem, dotted, sort
from sluicegate.streams.config.text.scalars import Unknown

MOST_PASSES = 12


SECTIONS = ("kafka", "schema_registry", "store")
"""The sections that lead to a system whose client may refuse them."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The outcome. `app` is None when there are problems. With `unset` variables it holds placeholders: it serves only
    for messages, and must never be run."""

    app: App | None = field(repr=False)
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    unset: tuple[Problem, ...]
    vague: frozenset[str] = frozenset()
    """Agents with an unset variable: their meaning is unknown."""
    sections: Mapping[str, LineColumn] = field(default_factory=dict)
    """The positions of SECTIONS in the file."""
    cases: tuple[Case, ...] = ()
    """The file's own tests."""


def load(path: str | FilePath, environ: Mapping[str, str], tolerant: bool = False) -> Loaded:
    """Reads the file, and calls `judge`. Problems are returned, not raised."""
    name, file = str(path), FilePath(path)
    try:
        source = document.parse(document.read(file), environ, file.parent)
    except Unreadable as error:
        return Loaded(None, (Problem(name, *error.place, "", error.message, error.hint),), (), ())
    return judge(source, name, file.parent, tolerant)


def judge(source: FileDocument, name: str, folder: FilePath, tolerant: bool = False) -> Loaded:
    """Checks a document and builds its App. `name` is the file in messages; relative paths start at `folder`.
    `tolerant`: unset variables and systems without TLS are no problems (`check`). Problems are returned, not raised."""
    model, findings = _judge(source, folder, tolerant)
    problems = [_problem(name, source, f) for f in findings]
    problems += [
        Problem(_file(name, source, f.path), *place, dotted(f.path), f.message, f.hint) for f, place in source.findings
    ]
    unset = [_problem(name, source, f) for f in source.unset]
    if not tolerant:
        problems += unset
    vague = frozenset(str(f.path[1]) for f in source.unset if f.path[:1] == ("agents",) and len(f.path) > 1)
    app = build.app(model, str(folder.absolute())) if model is not None and not problems else None
    if app is not None and model is not None and not unset:
        problems += [_problem(name, source, f) for f in rules.findings(app, model.tests)]
    warnings = [_problem(name, source, f) for f in _warnings(source, model, app, tolerant)]
    if app is not None and not unset and not problems:
        warnings += [_problem(name, source, f) for f in rules.warnings(app)]
    for problem in typed.judged(app, model) if app is not None and not unset and not problems else ():
        (warnings if problem.is_warning else problems).append(_problem(name, source, problem.finding))
    tests = cases.cases(model.tests, source.places) if model is not None and not problems else ()
    places = {section: _place(source, (section,)) for section in SECTIONS}
    return Loaded(None if problems else app, sort(problems), sort(warnings), sort(unset), vague, places, tests)


def findings_of(source: FileDocument, folder: FilePath, unreadable: schemas.Unreadability) -> list[FileFinding]:
    """All problems of a tree. `unreadable` returns the reason why a schema file cannot be read, or None."""
    return _judge(source, folder, False, unreadable)[1]


def _judge(
    source: FileDocument, folder: FilePath, tolerant: bool, unreadable: schemas.Unreadability = schemas.unreadable
) -> tuple[FileModel | None, list[FileFinding]]:
    """The model of the valid parts, and all findings. An invalid value is replaced by Unknown."""
    tree: Any = copy.deepcopy(source.tree)
    findings: list[FileFinding] = []
    if not isinstance(tree, dict):
        return None, [FileFinding((), "is not a mapping", "write `app: NAME` and the other keys at the top")]
    if isinstance(tree.get("kafka"), dict):
        findings += kafka.findings(tree["kafka"])
    for _ in range(MOST_PASSES):
        try:
            model = FileModel.model_validate(tree, context=kafka.clusters_of(tree.get("kafka")))
        except ValidationError as errors:
            for error in errors.errors(include_url=False):
                findings.append(refusals.finding(error, tree, _keys()))
            for error in errors.errors(include_url=False):
                refusals.mended(tree, error)
            continue
        unknown = {f.path for f in (*findings, *source.unset)} | {f.path for f, _ in source.findings}
        whole = [
            *checks.findings(model),
            *expressions.findings(model),
            *declared.findings(model),
            *lookups.findings(model),
            *(() if tolerant else transport.findings(model)),
            *registry.findings(model.schema_registry, folder),
        ]
        return model, findings + list(_certain([*whole, *schemas.findings(model, folder, unreadable)], unknown))
    return None, findings


def _certain(findings: Iterable[FileFinding], unknown: set[Path]) -> Iterator[FileFinding]:
    """The findings that do not depend on an unknown key, nor on one above or below it."""
    for finding in findings:
        if not any(_touches(need, path) for need in finding.needs for path in unknown):
            yield finding


def _touches(one: Path, other: Path) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _warnings(source: FileDocument, model: FileModel | None, app: App | None, tolerant: bool) -> Iterator[FileFinding]:
    unknown = {f.path for f in source.unset}
    if tolerant and model is not None:
        yield from _certain(transport.findings(model), unknown)
    if app is not None and model is not None:
        chosen = frozenset(name for name, agent in model.agents.items() if written.letters(model, agent).topic)
        yield from _certain(words.warnings(app, chosen), unknown)
    yield from (_written_secret(path) for path in _secrets(source) if path not in source.substituted)


def _secrets(source: FileDocument) -> Iterator[Path]:
    """The positions of secrets in the file."""
    tree = source.tree if isinstance(source.tree, dict) else {}
    settings, http, store = tree.get("kafka"), tree.get("http"), tree.get("store")
    clusters = kafka.clusters_of(settings)
    for path, of in map(clusters.of, clusters.settings):
        yield from ((*path, name) for name in of if secrets.is_secret(str(name)) and of[name] is not None)
    if isinstance(http, dict) and http.get("token") is not None:
        yield ("http", "token")
    asked = tree.get("schema_registry")
    auth = asked.get("auth") if isinstance(asked, dict) else None
    for name in ("password", "token", "client_secret"):
        if isinstance(auth, dict) and auth.get(name) is not None:
            yield ("schema_registry", "auth", name)
    if isinstance(store, str) and not isinstance(store, Unknown) and secrets.has_password(store):
        yield ("store",)


def _written_secret(path: Path) -> FileFinding:
    return FileFinding(path, "holds a secret in plain text", "write ${NAME} or ${file:/run/secrets/NAME} in its place")


def _problem(name: str, source: FileDocument, finding: FileFinding) -> Problem:
    place, message = _place(source, finding.path), finding.message
    if finding.column:
        written = source.texts.get(finding.path)
        if written is not None:
            place = written[0], written[1] + finding.column - 1
        else:
            message = f"character {finding.column} of the expression: {message}"
    return Problem(_file(name, source, finding.path), *place, dotted(finding.path), message, finding.hint)


def _file(name: str, source: FileDocument, path: Path) -> str:
    """The file that holds the key, or else the nearest key above it."""
    while path and path not in source.files:
        path = path[:-1]
    return source.files.get(path, name)


def _place(source: FileDocument, path: Path) -> LineColumn:
    """The position of the key, or else of the nearest key above it."""
    while path and path not in source.places:
        path = path[:-1]
    return source.places.get(path, (1, 1))


@cache
def _keys() -> Mapping[str, list[str]]:
    """The known keys of each place, without the keys of reducers."""
    keys: dict[str, list[str]] = {}
    for key in references().values():
        if "compute" not in key.path[:-1]:
            keys.setdefault(".".join(key.path[:-1]), []).append(key.path[-1])
    return keys
