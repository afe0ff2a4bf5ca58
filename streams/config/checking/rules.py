"""Checks whether the agents' rules can be compiled. It is the last check of a file, and the only one that imports the
user's code (`module:codec`, `reduce`)."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from sluicegate.streams.agent import Agent, App, Destination
from sluicegate.streams.config.checking import circles
from sluicegate.streams.config.formats import schemas
from sluicegate.streams.config.sections import correlating
from sluicegate.streams.config.sections.cases import StepModel
from sluicegate.streams.config.text.problems import FileFinding, Path, printable
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.importing import loaded, waits, yields

if TYPE_CHECKING:
    from sluicegate.streams.handlers.functions import Functions


def findings(app: App, tests: Mapping[str, list[StepModel]] = MappingProxyType({})) -> Iterator[FileFinding]:
    """Problems of compiling. Modules are looked up in the workers' order: installed packages first, then the file's
    folder."""
    from sluicegate.streams.handlers.outages import outage_type

    yield from circles.endless(app)
    sys.path.append(app.folder)
    try:
        for agent in app.agents:
            yield from schemas.judged(agent, correlating.place_of(agent))
            yield from _codecs((*correlating.place_of(agent), "format"), agent.format)
            for at, output in _outputs(agent):
                yield from _codecs(("agents", agent.name, *at, "format"), output.format)
            yield from _rule(agent)
            yield from _functions(agent, ("agents", agent.name, "handler"))
            for number, name in enumerate(agent.handler.outages if agent.handler else ()):
                try:
                    outage_type(name)
                except ConfigurationError as error:
                    yield _finding(("agents", agent.name, "outage", number), error, "correct the name")
        yield from _replaced(app, tests)
    finally:
        sys.path.remove(app.folder)


def _outputs(agent: Agent) -> list[tuple[Path, Destination]]:
    """Each destination with its path below the agent."""
    if not agent.routes:
        return [(("to",), output) for output in agent.outputs]
    return [(("to", number), output) for number, output in enumerate(agent.outputs)]


def _codecs(path: Path, name: str) -> Iterator[FileFinding]:
    from sluicegate.schemas import codec
    from sluicegate.schemas.codecs import SCHEMA_FORMATS

    if name in SCHEMA_FORMATS:
        return
    try:
        if ":" in name:
            loaded(name)
        made = codec(name)
    except ConfigurationError as error:
        yield _finding(path, error)
    except ValueError:
        yield FileFinding(
            path, f"{name}: has no decode or no encode", "name an object with both, as package.module:codec"
        )
    else:
        for word in [
            word for word in ("decode", "encode") if yields(getattr(made, word)) or waits(getattr(made, word))
        ]:
            yield FileFinding(path, f"{name}: {word} is async or a generator", "write a plain function that returns")


def _rule(agent: Agent) -> Iterator[FileFinding]:
    from sluicegate.streams import formats
    from sluicegate.streams.aggregation.rule import Rule

    path = ("agents", agent.name, "aggregate")
    try:
        form = formats.reads(agent)
    except (Exception, SystemExit):
        return
    problems = list(_reducers(agent, path))
    yield from problems
    if not problems:
        try:
            Rule(agent, form)
        except ConfigurationError as error:
            yield _finding(path, error, "change the field names, or the reducers")


def _reducers(agent: Agent, path: tuple[str, ...]) -> Iterator[FileFinding]:
    from sluicegate.streams.reducers import of_reduce

    for reducer in agent.aggregation.compute if agent.aggregation else ():
        try:
            if reducer.function is not None:
                of_reduce(reducer.function)
        except ConfigurationError as error:
            yield _finding((*path, "compute", reducer.name), error)


def _replaced(app: App, tests: Mapping[str, list[StepModel]]) -> Iterator[FileFinding]:
    """The functions that tests call in place of handlers."""
    handled = {agent.name: agent for agent in app.agents}
    for name, steps in tests.items():
        for number, step in enumerate(steps):
            for agent, functions in (step.handlers or {}).items():
                if (known := handled.get(agent)) is not None and known.handler is not None:
                    other = replace(known, handler=replace(known.handler, functions=tuple(functions)))
                    yield from _functions(other, ("tests", name, number, "handlers", agent))


def _functions(agent: Agent, path: Path) -> Iterator[FileFinding]:
    from sluicegate.streams.handlers.types import decoder

    try:
        if (handler := _imported(agent)) is not None:
            decoder(handler.value_type)
    except ConfigurationError as error:
        yield _finding(path, error)


def warnings(app: App) -> Iterator[FileFinding]:
    """Topics that no handler can write to. Call it when `findings`, which imports the handlers, has found nothing."""
    for agent in app.agents:
        handler = _imported(agent)
        if handler is not None and agent.outputs and not handler.sends:
            what = "gets nothing: the handler has neither the parameter `send` nor `context`"
            hint = "add `send` and call send(VALUE), or leave `to` out"
            yield FileFinding(("agents", agent.name, "to"), what, hint)


def _imported(agent: Agent) -> "Functions | None":
    """The functions of the agent's handler; None: it has none. Raises ConfigurationError."""
    from sluicegate.streams.handlers.functions import functions

    if agent.handler is None:
        return None
    item = "message" if agent.aggregation is None else "batch"
    compute = () if agent.aggregation is None else agent.aggregation.compute
    return functions(agent.handler.functions, item, agent.handler.session, compute)


def _finding(
    path: Path, error: ConfigurationError, otherwise: str = "correct the function, or the name"
) -> FileFinding:
    what, _, hint = printable(str(error)).removeprefix("aggregate: ").partition("; ")
    return FileFinding(path, what, hint or otherwise)
