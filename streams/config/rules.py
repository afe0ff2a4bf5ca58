"""Whether the agents' rules can be compiled: the last thing that can be wrong with a file, and the only one that imports
code of the user's (`module:codec`, `reduce`)."""

import sys
from collections.abc import Iterator

from streams.agent import Agent, App
from streams.config import avro
from streams.config.problems import Finding, printable
from streams.errors import ConfigurationError


def findings(app: App) -> Iterator[Finding]:
    """Modules are looked up as the workers do: what is installed first, then the file's folder."""
    sys.path.append(app.folder)
    try:
        for agent in app.agents:
            yield from avro.judged(agent, ("agents", agent.name))
            yield from _codecs(("agents", agent.name, "format"), agent.format)
            if agent.to is not None:
                yield from _codecs(("agents", agent.name, "to", "format"), agent.to.format)
            yield from _rule(agent)
            yield from _functions(agent)
    finally:
        sys.path.remove(app.folder)


def _codecs(path: tuple[str, ...], name: str) -> Iterator[Finding]:
    from schemas import codec

    if name == "avro":
        return
    try:
        codec(name)
    except ValueError:
        yield Finding(path, "is no codec that can be imported", "name an object with decode and encode, as package.module:codec")
    except (Exception, SystemExit) as error:
        yield _raised(path, error)


def _rule(agent: Agent) -> Iterator[Finding]:
    from streams import formats
    from streams.aggregation.rule import Rule

    path = ("agents", agent.name, "aggregate")
    try:
        form = formats.reads(agent)
    except (Exception, SystemExit):
        return
    try:
        Rule(agent, form)
    except ConfigurationError as error:
        what, _, hint = printable(str(error)).removeprefix("aggregate: ").partition("; ")
        yield Finding(path, what, hint or "change the field names, or the reducers")
    except (Exception, SystemExit) as error:
        yield _raised(path, error)


def _functions(agent: Agent) -> Iterator[Finding]:
    from streams.handlers.functions import decoder, functions

    if agent.handler is None:
        return
    path, item = ("agents", agent.name, "handler"), "message" if agent.aggregation is None else "batch"
    try:
        found = functions(agent.handler.functions, item, lambda coroutine: None, agent.handler.session)
        decoder(found.value_type)
    except ConfigurationError as error:
        what, _, hint = printable(str(error)).partition("; ")
        yield Finding(path, what, hint or "correct the function, or the name")
    except (Exception, SystemExit) as error:
        yield _raised(path, error)


def _raised(path: tuple[str, ...], error: BaseException) -> Finding:
    return Finding(path, f"the module it names raised {type(error).__name__} when it was imported", "correct the module")
