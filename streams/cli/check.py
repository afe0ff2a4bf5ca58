"""`sluicegate check`: is the file right, what does it mean, and with `--connect`: are its systems ready."""

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluicegate.streams.cli import extras
from sluicegate.streams.cli.outcome import DONE, SYSTEM, USAGE, complain, ending
from sluicegate.streams.cli.parameters import AsJson, FileArgument
from sluicegate.streams.errors import ConfigurationError

if TYPE_CHECKING:
    from sluicegate.streams.cli.finding import SystemFinding
    from sluicegate.streams.config import Loaded, Problem


@ending
def check(
    file: FileArgument,
    connect: Annotated[bool, typer.Option("--connect", help="Ask store and brokers whether they are ready.")] = False,
    json: AsJson = False,
) -> int:
    """Check the file; say in words what it means and what is unsafe."""
    from sluicegate.streams.config import load

    loaded = _traced(file, _opened(file, load(file, os.environ, tolerant=not connect)))
    found: list[SystemFinding] = []
    if connect and loaded.app is not None:
        from sluicegate.streams.cli.systems import inspect

        found = inspect(loaded.app)
    code = USAGE if loaded.problems else DONE if all(f.ok for f in found) else SYSTEM
    if json:
        _as_json(loaded, found if connect else None, code)
    else:
        _in_words(loaded, found)
    return code


def _opened(file: str, loaded: "Loaded") -> "Loaded":
    """A store that its connector refuses is a problem of the file, too: `run` would end with it."""
    app = loaded.app
    if app is None or loaded.unset or app.store.startswith("memory:"):
        return loaded
    from sluicegate.connectors import open_store
    from sluicegate.streams.config import Problem

    try:
        open_store(app.store, app.folder).close()
        wrong = extras.lacking(app)
    except ConfigurationError as error:
        wrong = str(error)
    if wrong is None:
        return loaded
    what, _, hint = wrong.partition(": ")
    return replace(
        loaded, app=None, problems=(Problem(file, *loaded.store_at, "store", what, hint or "correct the URL"),)
    )


def _traced(file: str, loaded: "Loaded") -> "Loaded":
    """Spans that OpenTelemetry's variables ask for and that cannot be had are a problem, too: `run` would end with
    it."""
    from sluicegate.streams.config import Problem
    from sluicegate.streams.observe import tracing

    try:
        tracing.asked(os.environ)
    except ConfigurationError as error:
        what, _, hint = str(error).rpartition(": ")
        problem = Problem(file, 1, 1, "environment", what or hint, hint if what else "correct the variables OTEL_*")
        return replace(loaded, app=None, problems=(*loaded.problems, problem))
    return loaded


def _as_json(loaded: "Loaded", found: "list[SystemFinding] | None", code: int) -> None:
    from sluicegate.streams.cli.output import print_json

    document: dict[str, Any] = {
        "ok": code == DONE,
        "problems": [_shown(p) for p in loaded.problems],
        "warnings": [_shown(p) for p in _warnings(loaded)],
    }
    schemas = _schemas(loaded)
    if schemas:
        document["schemas"] = schemas
    if found is not None:
        document["systems"] = [f._asdict() for f in found]
    print_json(document)


def _schemas(loaded: "Loaded") -> dict[str, Any]:
    """Agent -> the Avro schema of what it writes."""
    from json import loads

    agents = loaded.app.agents if loaded.app and not loaded.unset else ()
    return {
        agent.name: loads(agent.to.avro.schema)
        for agent in agents
        if agent.to is not None and agent.to.avro is not None
    }


def _shown(problem: "Problem") -> dict[str, Any]:
    return {
        "file": problem.file,
        "line": problem.line,
        "key": problem.key,
        "message": problem.message,
        "hint": problem.hint,
    }


def _warnings(loaded: "Loaded") -> "tuple[Problem, ...]":
    """An unset variable is a warning unless it is a problem already."""
    from sluicegate.streams.config.problems import sort

    return sort((*loaded.warnings, *(p for p in loaded.unset if p not in loaded.problems)))


def _in_words(loaded: "Loaded", found: "list[SystemFinding]") -> None:
    from sluicegate.streams.config import meaning
    from sluicegate.streams.config.words import changing, dispatching

    for problem in loaded.problems:
        complain(str(problem))
    for warning in _warnings(loaded):
        complain(warning.as_warning())
    for agent in loaded.app.agents if loaded.app else ():
        print(f"{agent.name}:")
        vague = agent.name in loaded.vague
        for sentence in ["has variables that are not set: what it does depends on them"] if vague else meaning(agent):
            print(f"  {sentence}")
    if loaded.app is not None and (means := changing(loaded.app)):
        print(f"when the file changes:\n  {means}")
    for number, sentence in enumerate(dispatching(loaded.app) if loaded.app else ()):
        print(f"{'' if number else 'dispatcher:' + chr(10)}  {sentence}")
    for each in found:
        line = f"{each.system}: {each.text}{'; ' + each.hint if each.hint else ''}"
        print(line) if each.ok else complain(line)
    count = len(loaded.problems)
    if count:
        complain(f"{count} problem{'' if count == 1 else 's'}")
